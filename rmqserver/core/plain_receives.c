// Stored messages as answers of gRPC (protobuf). simple.py says what pack_received does; a message that is not plain is
// left to protobuf. What has its length in front is written from its end to its begin.
#include "glue.h"

#define RECORDS_MAX 64
#define USER_PROPERTIES_MAX 16
#define ROOM_BESIDE 512  // for numbers, hosts and digest of a message, and the heads of their fields
#define MD5_SIZE 16
#define COMPRESSED 1
#define TIME_DIGITS_MAX 14

enum { USER, TAG, KEYS, UNIQUE_KEY, BORN_TIME, BORN_TEXT, DROPPED, ODD };  // what a property becomes, by its name
enum { HAS_TEXT = 2 };

typedef struct {
    const char *at;
    Record record;
    Text texts[DROPPED], names[USER_PROPERTIES_MAX], values[USER_PROPERTIES_MAX];
    int property_count;
    int64_t born_ms;
    uint32_t attempt;
} Popped;

// --- reading

// The property's role; -1 with an exception.
static long role_of(Text name, PyObject *roles) {
    PyObject *key = PyBytes_FromStringAndSize(name.bytes, name.size);
    PyObject *role = key ? PyDict_GetItemWithError(roles, key) : NULL;
    Py_XDECREF(key);
    return role ? PyLong_AsLong(role) : PyErr_Occurred() ? -1 : USER;
}

static int take_property(Popped *popped, Text name, Text value, long role) {
    if (role < 0 || role > DROPPED || !is_within(name, ' ', '~') || !is_within(value, ' ', '~')) return 0;
    if (role == DROPPED) return 1;
    if (role != USER) {
        if (popped->texts[role].bytes) return 0;
        popped->texts[role] = value;
        return 1;
    }
    int count = popped->property_count++;
    if (count == USER_PROPERTIES_MAX) return 0;
    for (int each = 0; each < count; each++)
        if (is_same(popped->names[each], name)) return 0;
    popped->names[count] = name;
    popped->values[count] = value;
    return 1;
}

// Whether the message has one of these tags, which may be None for any; -1 with an exception.
static int has_tag_of(const Popped *popped, PyObject *tags) {
    if (Py_IsNone(tags)) return 1;
    Text tag = popped->texts[TAG];
    PyObject *text = tag.size ? PyUnicode_FromStringAndSize(tag.bytes, tag.size) : NULL;
    int found = text ? PySet_Contains(tags, text) : tag.size ? -1 : 0;
    Py_XDECREF(text);
    return found;
}

static int take_born_time(Popped *popped) {
    Text text = popped->texts[BORN_TIME];
    popped->born_ms = i64_at(popped->at + 40);
    if (text.size > TIME_DIGITS_MAX) return 0;
    if (text.bytes && read_digits(text.bytes, text.bytes + text.size, &popped->born_ms) != text.bytes + text.size) return 0;
    return popped->born_ms > 0;
}

typedef struct { Text records, topic; PyObject *handles, *roles, *tags, *md5, *digest_name; unsigned int attempts_max; } Given;

// 1 if it is plain; 0 if not, -1 with an exception.
static int read_popped(Popped *popped, const Given *given) {
    const Record *record = &popped->record;
    uint32_t reconsume_times = u32_at(popped->at + 72);
    popped->attempt = reconsume_times + 1;
    if (record->magic != MAGIC_V1 || record->sys_flag & (COMPRESSED | BORN_HOST_V6 | STORE_HOST_V6) ||
        record->properties.size != record->properties_size || reconsume_times >= given->attempts_max || record->store_ms <= 0 ||
        record->queue_id < 0 || record->queue_offset < 0 || record->log_offset < 0) return 0;
    Text rest = record->properties, name, value;
    for (int more; (more = next_property(&rest, &name, &value));) {
        if (more < 0) return 0;
        long role = role_of(name, given->roles);
        if (role < 0 && PyErr_Occurred()) return -1;
        if (!take_property(popped, name, value, role)) return 0;
    }
    return popped->texts[UNIQUE_KEY].size && take_born_time(popped) ? has_tag_of(popped, given->tags) : 0;
}

// --- writing

typedef struct { char *begin, *at; int is_full; } Back;

static void put_bytes(Back *back, const void *bytes, ptrdiff_t size) {
    if (size > back->at - back->begin) {
        back->is_full = 1;
        return;
    }
    back->at -= size;
    if (size) memcpy(back->at, bytes, (size_t)size);
}

static void put_varint(Back *back, uint64_t value) {
    uint8_t bytes[10], *to = bytes;
    for (; value > 0x7F; value >>= 7) *to++ = (uint8_t)value | 0x80;
    *to++ = (uint8_t)value;
    put_bytes(back, bytes, to - bytes);
}

static void put_value_of(Back *back, uint32_t number, uint64_t value) {
    put_varint(back, value);
    put_varint(back, number << 3);
}

// The head of a field whose bytes reach from here to ``end``.
static void put_head(Back *back, uint32_t number, const char *end) {
    put_varint(back, (uint64_t)(end - back->at));
    put_varint(back, number << 3 | HAS_TEXT);
}

static void put_field(Back *back, uint32_t number, Text text) {
    const char *end = back->at;
    put_bytes(back, text.bytes, text.size);
    put_head(back, number, end);
}

static void put_time(Back *back, uint32_t number, int64_t time_ms) {
    const char *end = back->at;
    if (time_ms % 1000) put_value_of(back, 2, (uint64_t)(time_ms % 1000) * 1000000);
    if (time_ms / 1000) put_value_of(back, 1, (uint64_t)(time_ms / 1000));
    put_head(back, number, end);
}

static void put_host(Back *back, uint32_t number, const char *host) {
    char text[32], *to = text;
    for (int at = 0; at < 4; at++) {
        to = put_number(to, (uint8_t)host[at]);
        *to++ = at < 3 ? '.' : ':';
    }
    to = put_number(to, u32_at(host + 4));
    put_field(back, number, (Text){text, to - text});
}

static void put_digest(Back *back, const uint8_t *md5) {
    char hex[2 * MD5_SIZE], *to = hex;
    const char *end = back->at;
    for (int at = 0; at < MD5_SIZE; at++) to = put_hex(to, md5[at]);
    put_field(back, 2, (Text){hex, sizeof hex});
    put_value_of(back, 1, 2);  // MD5
    put_head(back, 4, end);
}

static void put_keys(Back *back, Text keys) {  // the last comes first
    for (ptrdiff_t end = keys.size, at = end - 1; at >= -1; at--) {
        if (at >= 0 && keys.bytes[at] != ' ') continue;
        if (end > at + 1) put_field(back, 2, (Text){keys.bytes + at + 1, end - at - 1});
        end = at;
    }
}

static void put_system(Back *back, const Popped *popped, Text handle, const uint8_t *md5) {
    const Record *record = &popped->record;
    const char *end = back->at;
    put_value_of(back, 16, popped->attempt);
    put_value_of(back, 14, (uint64_t)record->queue_offset);
    if (record->queue_id) put_value_of(back, 13, (uint64_t)record->queue_id);
    const char *handle_end = back->at;
    char number[NUMBER_SIZE_MAX];
    put_bytes(back, number, put_number(number, record->log_offset) - number);
    put_bytes(back, " ", 1);
    put_bytes(back, handle.bytes, handle.size);
    put_head(back, 12, handle_end);
    put_host(back, 10, popped->at + 64);
    put_time(back, 9, record->store_ms);
    if (popped->texts[BORN_TEXT].size) put_field(back, 8, popped->texts[BORN_TEXT]);
    else put_host(back, 8, popped->at + 48);
    put_time(back, 7, popped->born_ms);
    put_value_of(back, 6, 1);  // NORMAL
    put_value_of(back, 5, 1);  // IDENTITY
    put_digest(back, md5);
    put_field(back, 3, popped->texts[UNIQUE_KEY]);
    put_keys(back, popped->texts[KEYS]);
    if (popped->texts[TAG].size) put_field(back, 1, popped->texts[TAG]);
    put_head(back, 3, end);
}

// A ReceiveMessageResponse, with what stands before it in a stream.
static void put_answer_of(Back *back, const Popped *popped, Text topic, Text handle, const uint8_t *md5) {
    const char *end = back->at;
    if (popped->record.body.size) put_field(back, 4, popped->record.body);
    put_system(back, popped, handle, md5);
    for (int each = popped->property_count - 1; each >= 0; each--) {
        const char *entry_end = back->at;
        put_field(back, 2, popped->values[each]);
        put_field(back, 1, popped->names[each]);
        put_head(back, 2, entry_end);
    }
    const char *topic_end = back->at;
    put_field(back, 2, topic);
    put_head(back, 1, topic_end);
    put_head(back, 2, end);
    uint8_t head[5] = {0};
    put_big_endian(head + 1, (uint64_t)(end - back->at), 4);
    put_bytes(back, head, sizeof head);
}

// --- both

// Sets the digest of the body. -1 with an exception.
static int digest_of(Text body, const Given *given, uint8_t *digest) {
    PyObject *bytes = PyBytes_FromStringAndSize(body.bytes, body.size);
    PyObject *hash = bytes ? PyObject_CallOneArg(given->md5, bytes) : NULL;
    PyObject *found = hash ? PyObject_CallMethodNoArgs(hash, given->digest_name) : NULL;
    int is_one = found && PyBytes_Check(found) && PyBytes_GET_SIZE(found) == MD5_SIZE;
    if (is_one) memcpy(digest, PyBytes_AS_STRING(found), MD5_SIZE);
    else if (found) PyErr_SetString(PyExc_TypeError, "a digest of 16 bytes is wanted");
    Py_XDECREF(bytes);
    Py_XDECREF(hash);
    Py_XDECREF(found);
    return is_one ? 0 : -1;
}

// 1 if all are written, 0 if one is not plain, -1 with an exception.
static int pack(const Given *given, const Text *records, Py_ssize_t count, Back *back) {
    for (Py_ssize_t number = count - 1; number >= 0; number--) {
        Popped popped = {.at = records[number].bytes};
        PyObject *handle = PyTuple_GET_ITEM(given->handles, number);
        uint8_t digest[MD5_SIZE];
        if (!PyBytes_Check(handle)) return PyErr_SetString(PyExc_TypeError, "handles are bytes"), -1;
        read_record(popped.at, records[number].size, &popped.record);
        int done = read_popped(&popped, given);
        if (done <= 0) return done;
        if (digest_of(popped.record.body, given, digest)) return -1;
        put_answer_of(back, &popped, given->topic, text_of(handle), digest);
    }
    return !back->is_full;
}

PyObject *pack_received(PyObject *Py_UNUSED(module), PyObject *args) {
    PyObject *data, *topic, *handles;
    Given given;
    if (!PyArg_ParseTuple(args, "SSO!O!OIO", &data, &topic, &PyList_Type, &handles, &PyDict_Type, &given.roles,
                          &given.tags, &given.attempts_max, &given.md5)) return NULL;
    if (!Py_IsNone(given.tags) && !PyFrozenSet_Check(given.tags)) return PyErr_Format(PyExc_TypeError, "tags are a frozenset");
    given.records = text_of(data);
    given.topic = text_of(topic);
    Text records[RECORDS_MAX];
    Py_ssize_t count = 0, room = 0, wanted = PyList_GET_SIZE(handles);
    for (Text rest = given.records; rest.size; count++) {
        Record record;
        if (count == RECORDS_MAX || count == wanted || !read_record(rest.bytes, rest.size, &record)) Py_RETURN_NONE;
        records[count] = (Text){rest.bytes, record.size};
        room += record.size + record.properties.size + given.topic.size + ROOM_BESIDE;
        rest = (Text){rest.bytes + record.size, rest.size - record.size};
    }
    if (count != wanted) Py_RETURN_NONE;
    char *begin = PyMem_Malloc((size_t)room + 1);
    if (!begin) return PyErr_NoMemory();
    Back back = {begin, begin + room, 0};
    given.digest_name = PyUnicode_InternFromString("digest");
    given.handles = PyList_AsTuple(handles);  // md5 may change the list
    int done = given.digest_name && given.handles ? pack(&given, records, count, &back) : -1;
    PyObject *packed = done > 0 ? PyBytes_FromStringAndSize(back.at, begin + room - back.at) : done ? NULL : Py_NewRef(Py_None);
    Py_XDECREF(given.handles);
    Py_XDECREF(given.digest_name);
    PyMem_Free(begin);
    return packed;
}
