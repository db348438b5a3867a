// Extracts what readers need from the plain records in one piece of a copied log: units by queue, and index items.
// log_copy.py does the same in Python, for all other records or if this is not built;
// tests/rmqserver/store/append/test_dispatch.py keeps them equal.
#define _GNU_SOURCE  // memmem
#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <stdint.h>
#include <string.h>
#include "_crc32.h"

#define RECORD_SIZE_MIN 91
#define MAGIC_V1 0xDAA320A7u
#define UNIT_SIZE 20  // of a consume queue: log offset i64 | record size i32 | tags code i64
#define HOSTS_V6 0x30
#define NO_TAG (-1)
#define RUNS_MAX 512
#define SLOTS 2048  // more than RUNS_MAX, a power of two
#define MARKS_MAX 8
#define ITEM_PARTS 6  // of an IndexItem

// 0 size i32 | 4 magic i32 | 8 body CRC i32 | 12 queue id i32 | 20 queue offset i64 | 28 log offset i64 | 36 sysFlag i32
// | 56 store time i64 | 84 body length i32 | 88 body, then the topic with its length (u8), the properties with theirs (u16)
#define BODY_AT 88

typedef struct { const char *bytes; Py_ssize_t size; } Text;
typedef struct {
    int64_t log_offset, queue_offset, store_ms;
    int32_t size, queue_id;
    uint32_t sys_flag;
    Text body, topic, properties;
    uint32_t crc;
} Record;
typedef struct {  // consecutive units of one queue
    Text topic;
    int32_t queue_id;
    uint32_t prefix_hash;  // of "topic#"
    int64_t first, next;
    uint8_t *at;
    PyObject *units;
} Run;
typedef struct { int64_t log_offset, code; int32_t size, run; } Unit;
typedef struct {
    Run runs[RUNS_MAX];
    int16_t slots[SLOTS];  // a run's number plus 1
    int32_t run_count;
    Unit *units;
    Py_ssize_t unit_count;
} Found;

static uint32_t u32_at(const char *at) {
    const uint8_t *bytes = (const uint8_t *)at;
    return (uint32_t)bytes[0] << 24 | (uint32_t)bytes[1] << 16 | (uint32_t)bytes[2] << 8 | bytes[3];
}

static int64_t i64_at(const char *at) { return (int64_t)((uint64_t)u32_at(at) << 32 | u32_at(at + 4)); }

static uint8_t *put_big_endian(uint8_t *to, uint64_t value, int size) {
    for (int at = size - 1; at >= 0; at--, value >>= 8) to[at] = (uint8_t)value;
    return to + size;
}

// Continues Java's String.hashCode with these characters. -1 if one is not ASCII.
static int extend_hash(uint32_t *hash, Text text) {
    for (Py_ssize_t at = 0; at < text.size; at++) {
        if (text.bytes[at] & 0x80) return -1;
        *hash = 31 * *hash + (uint8_t)text.bytes[at];
    }
    return 0;
}

// Math.abs of a hash; 0 for the only number that has none.
static uint32_t absolute(uint32_t hash) { return hash < 0x80000000u ? hash : (0u - hash) & 0x7FFFFFFFu; }

// Reads a record of the usual kind. 0 if none begins there, or its lengths do not agree.
static int take_record(const char *at, const char *end, int64_t log_offset, Record *record) {
    if (end - at < RECORD_SIZE_MIN) return 0;
    record->size = (int32_t)u32_at(at);
    record->log_offset = i64_at(at + 28);
    record->sys_flag = u32_at(at + 36);
    if (record->size < RECORD_SIZE_MIN || record->size > end - at || record->log_offset != log_offset) return 0;
    if (u32_at(at + 4) != MAGIC_V1 || record->sys_flag & HOSTS_V6) return 0;
    const char *stop = at + record->size;
    int64_t body_size = (int32_t)u32_at(at + 84);
    if (body_size < 0 || body_size > record->size - BODY_AT - 3) return 0;
    const char *topic = at + BODY_AT + body_size + 1, *topic_end = topic + (uint8_t)topic[-1];
    if (stop - topic_end < 2) return 0;
    Py_ssize_t properties_size = (uint8_t)topic_end[0] << 8 | (uint8_t)topic_end[1];
    if (topic_end + 2 + properties_size != stop) return 0;
    record->crc = u32_at(at + 8);
    record->queue_id = (int32_t)u32_at(at + 12);
    record->queue_offset = i64_at(at + 20);
    record->store_ms = i64_at(at + 56);
    record->body = (Text){at + BODY_AT, (Py_ssize_t)body_size};
    record->topic = (Text){topic, topic_end - topic};
    record->properties = (Text){topic_end + 2, properties_size};
    return 1;
}

// 1 if the body has its checksum, 0 if not; -1 with an exception. ``crc32`` may be None.
static int is_intact(const Record *record, PyObject *crc32) {
    if (crc32 == Py_None) return (crc32_of(record->body.bytes, record->body.size) & 0x7FFFFFFF) == record->crc;
    PyObject *body = PyMemoryView_FromMemory((char *)record->body.bytes, record->body.size, PyBUF_READ);
    if (!body) return -1;
    PyObject *found = PyObject_CallOneArg(crc32, body);
    Py_DECREF(body);
    if (!found) return -1;
    unsigned long value = PyLong_AsUnsignedLong(found);
    Py_DECREF(found);
    if (PyErr_Occurred()) return -1;
    return (value & 0x7FFFFFFF) == record->crc;
}

static int has_own_crc32;

static int has_mark(Text properties, const Text *marks, Py_ssize_t count) {
    for (Py_ssize_t number = 0; number < count; number++)
        if (memmem(properties.bytes, properties.size, marks[number].bytes, marks[number].size)) return 1;
    return 0;
}

static int is_named(const char *at, const char *stop, Text name) {
    return stop - at > name.size && !memcmp(at, name.bytes, name.size);
}

// The last of several values counts; an empty value counts as none.
static void find_keys(Text properties, Text *unique_key, Text *keys, Text *tags) {
    static const Text unique_key_name = {"UNIQ_KEY\x01", 9}, keys_name = {"KEYS\x01", 5}, tags_name = {"TAGS\x01", 5};
    *unique_key = *keys = *tags = (Text){"", 0};
    const char *at = properties.bytes, *end = at + properties.size;
    while (at < end) {
        const char *stop = memchr(at, 2, end - at);
        if (!stop) stop = end;
        if (is_named(at, stop, unique_key_name)) *unique_key = (Text){at + 9, stop - at - 9};
        else if (is_named(at, stop, keys_name)) *keys = (Text){at + 5, stop - at - 5};
        else if (is_named(at, stop, tags_name)) *tags = (Text){at + 5, stop - at - 5};
        at = stop + 1;
    }
}

// A topic that can be a directory and needs no decoding.
static int is_plain_topic(Text topic) {
    uint32_t unused = 0;
    return topic.size && !extend_hash(&unused, topic) && topic.bytes[0] != '.' && !memchr(topic.bytes, '/', topic.size) && !memchr(topic.bytes, 0, topic.size);
}

// The run that the record's unit continues, or a new one. NULL if there is no room, or the topic is not plain.
static Run *run_of(Found *found, const Record *record) {
    uint32_t hash = 17 * (uint32_t)record->queue_id + (uint32_t)record->topic.size;
    for (Py_ssize_t at = 0; at < record->topic.size; at++) hash = 31 * hash + (uint8_t)record->topic.bytes[at];
    hash ^= hash >> 15;
    for (uint32_t slot = hash % SLOTS;; slot = (slot + 1) % SLOTS) {
        Run *run = found->slots[slot] ? &found->runs[found->slots[slot] - 1] : NULL;
        if (run) {
            if (run->queue_id != record->queue_id || run->topic.size != record->topic.size) continue;
            if (memcmp(run->topic.bytes, record->topic.bytes, run->topic.size)) continue;
            if (run->next == record->queue_offset || run->next == run->first) return run;
        }
        uint32_t prefix_hash = 0;
        if (found->run_count == RUNS_MAX || !is_plain_topic(record->topic)) return NULL;
        if (extend_hash(&prefix_hash, record->topic) || extend_hash(&prefix_hash, (Text){"#", 1})) return NULL;
        run = &found->runs[found->run_count++];
        *run = (Run){record->topic, record->queue_id, prefix_hash, record->queue_offset, record->queue_offset, NULL, NULL};
        found->slots[slot] = (int16_t)found->run_count;
        return run;
    }
}

static int add_item(PyObject *items, const Record *record, uint32_t prefix_hash, Text unique_key, Text keys, int64_t tag_hash) {
    PyObject *item = PyTuple_New(ITEM_PARTS);  // Py_BuildValue reads its format anew for each record
    if (!item) return -1;
    PyTuple_SET_ITEM(item, 0, PyLong_FromUnsignedLong(prefix_hash));
    PyTuple_SET_ITEM(item, 1, PyLong_FromLongLong(record->log_offset));
    PyTuple_SET_ITEM(item, 2, PyLong_FromLongLong(record->store_ms));
    PyTuple_SET_ITEM(item, 3, PyBytes_FromStringAndSize(unique_key.bytes, unique_key.size));
    PyTuple_SET_ITEM(item, 4, PyBytes_FromStringAndSize(keys.bytes, keys.size));
    PyTuple_SET_ITEM(item, 5, PyLong_FromLongLong(tag_hash));
    int failed = PyErr_Occurred() ? -1 : PyList_Append(items, item);
    Py_DECREF(item);
    return failed;
}

// Adds a unit and an index item, as the record's fate says. 1 if the record is not plain; -1 with an exception.
static int add_record(Found *found, const Record *record, int is_queued, int is_indexed, PyObject *items) {
    if (record->queue_offset < 0 || record->queue_offset == INT64_MAX) return 1;  // damaged; 0 always begins a run
    if (!is_queued && !is_indexed) return is_plain_topic(record->topic) ? 0 : 1;
    Text unique_key, keys, tags;
    find_keys(record->properties, &unique_key, &keys, &tags);
    uint32_t code = 0;
    if (extend_hash(&code, tags)) return 1;
    Run *run = run_of(found, record);
    if (!run) return 1;
    if (is_indexed) {
        uint32_t hash = run->prefix_hash;
        extend_hash(&hash, (Text){"T#", 2});
        extend_hash(&hash, tags);
        int64_t tag_hash = tags.size ? (int64_t)absolute(hash) : NO_TAG;
        if (add_item(items, record, run->prefix_hash, unique_key, keys, tag_hash)) return -1;
    }
    if (is_queued) {
        if (run->next == run->first) run->first = run->next = record->queue_offset;
        run->next++;
        found->units[found->unit_count++] =
            (Unit){record->log_offset, (int32_t)code, record->size, (int32_t)(run - found->runs)};
    }
    return 0;
}

static PyObject *runs_of(Found *found) {
    PyObject *runs = PyList_New(0);
    if (!runs) return NULL;
    for (int32_t number = 0; number < found->run_count; number++) {
        Run *run = &found->runs[number];
        if (run->next == run->first) continue;
        PyObject *units = PyBytes_FromStringAndSize(NULL, (run->next - run->first) * UNIT_SIZE);
        if (!units) { Py_DECREF(runs); return NULL; }
        run->at = (uint8_t *)PyBytes_AS_STRING(units);
        PyObject *made = Py_BuildValue("s#iLN", run->topic.bytes, run->topic.size, (int)run->queue_id, (long long)run->first,
                                       units);
        if (!made || PyList_Append(runs, made)) { Py_XDECREF(made); Py_DECREF(runs); return NULL; }
        Py_DECREF(made);
    }
    for (Py_ssize_t number = 0; number < found->unit_count; number++) {
        const Unit *unit = &found->units[number];
        uint8_t **at = &found->runs[unit->run].at;
        *at = put_big_endian(*at, (uint64_t)unit->log_offset, 8);
        *at = put_big_endian(*at, (uint32_t)unit->size, 4);
        *at = put_big_endian(*at, (uint64_t)unit->code, 8);
    }
    return runs;
}

PyDoc_STRVAR(plain_records_doc,
"plain_records(data, base, fates, queued, indexed, marks, odd_topic, crc32) -> (end, last, store_ms, runs, items)\n\n"
"Takes the records of ``data``, the log from ``base`` on, up to the first that is incomplete, damaged, or not plain. A record\n"
"is not plain if it has IPv6 hosts, a long topic, ``odd_topic``, a topic that cannot be a directory, a topic or tags that are\n"
"not ASCII, a queue offset that has no next one or is negative, or one of ``marks`` in its properties. The records end at\n"
"``end``; the last begins at ``last`` and has the store time ``store_ms``. A run is (topic, queue id, first queue offset,\n"
"units); an item is an IndexItem. ``fates``, by the low bits of a sysFlag, tells by the bits ``queued`` and ``indexed`` which\n"
"records have them (``indexed`` 0: none is indexed).\n"
"``crc32`` is zlib's, or None if HAS_CRC32: this processor has what it takes to compute it here, faster.");

static PyObject *plain_records(PyObject *module, PyObject *args) {
    Found *found = NULL;
    Py_buffer data;
    PyObject *fates, *given_marks, *odd_topic, *crc32, *items = NULL, *runs = NULL, *result = NULL;
    long long base, last = -1, store_ms = 0;
    int queued, indexed, failed = 0;
    Text marks[MARKS_MAX];
    if (!PyArg_ParseTuple(args, "y*LSiiO!SO", &data, &base, &fates, &queued, &indexed, &PyTuple_Type, &given_marks, &odd_topic,
                          &crc32)) return NULL;
    Py_ssize_t mark_count = PyTuple_GET_SIZE(given_marks);
    if (crc32 == Py_None && !has_own_crc32) {
        PyErr_SetString(PyExc_ValueError, "this processor needs a function for the checksum");
        goto done;
    }
    if (PyBytes_GET_SIZE(fates) != 256 || mark_count > MARKS_MAX) {
        PyErr_SetString(PyExc_ValueError, "fates are 256 bytes, and there are 8 marks at most");
        goto done;
    }
    for (Py_ssize_t number = 0; number < mark_count; number++)
        if (PyBytes_AsStringAndSize(PyTuple_GET_ITEM(given_marks, number), (char **)&marks[number].bytes, &marks[number].size))
            goto done;
    const char *start = data.buf, *end = start + data.len, *at = start;
    const uint8_t *fate_of = (const uint8_t *)PyBytes_AS_STRING(fates);
    found = PyMem_Calloc(1, sizeof(Found));
    if (found) found->units = PyMem_Malloc((data.len / RECORD_SIZE_MIN + 1) * sizeof(Unit));
    if (!found || !found->units) { PyErr_NoMemory(); goto done; }
    if (!(items = PyList_New(0))) goto done;
    for (Record record; take_record(at, end, base + (at - start), &record); at += record.size) {
        if (record.topic.size == PyBytes_GET_SIZE(odd_topic) &&
            !memcmp(record.topic.bytes, PyBytes_AS_STRING(odd_topic), record.topic.size)) break;
        if (has_mark(record.properties, marks, mark_count)) break;
        int intact = is_intact(&record, crc32), fate = fate_of[record.sys_flag & 0xFF];
        if (intact < 0) goto done;
        if (!intact) break;
        failed = add_record(found, &record, fate & queued, fate & indexed, items);
        if (failed < 0) goto done;
        if (failed) break;
        last = record.log_offset;
        store_ms = record.store_ms;
    }
    if ((runs = runs_of(found))) result = Py_BuildValue("LLLOO", base + (at - start), last, store_ms, runs, items);
done:
    if (found) PyMem_Free(found->units);
    PyMem_Free(found);
    Py_XDECREF(items);
    Py_XDECREF(runs);
    PyBuffer_Release(&data);
    return result;
}

static PyMethodDef methods[] = {{"plain_records", plain_records, METH_VARARGS, plain_records_doc}, {NULL}};
static struct PyModuleDef definition = {PyModuleDef_HEAD_INIT, .m_name = "_dispatch", .m_size = 0, .m_methods = methods};
PyMODINIT_FUNC PyInit__dispatch(void) {
    PyObject *module = PyModule_Create(&definition);
    has_own_crc32 = has_crc32();
    if (module && PyModule_AddIntConstant(module, "HAS_CRC32", has_own_crc32)) Py_CLEAR(module);
    return module;
}
