// Requests of gRPC that ask for nothing unusual, cut out of their bytes (protobuf). simple.py says what each function does;
// what is not plain here is left to protobuf.
#include "glue.h"

#define CALL_HEAD 5  // compressed u8 | length u32
#define USER_PROPERTIES_MAX 16
#define TEXTS_SIZE_MAX 4096  // of all texts of a message
#define ROOM (TEXTS_SIZE_MAX + 1024)  // for its properties: their separators, our names and numbers
#define MESSAGE_ID_MAX 50  // of the answer's entry, one byte tells the length
#define NAME_SIZE_MAX 127
#define ENCODING_GZIP 2
#define TYPE_TRANSACTION 4
#define COMPRESSED 1  // of a sysFlag
#define RECEIPT_WORDS 9
#define OFFSET_WORD 7
#define SECONDS_MAX (1LL << 34)

typedef struct { const uint8_t *at, *end; } Walk;  // over the fields of a message
typedef struct { uint32_t number; int has_text; Text text; uint64_t value; } Field;

// What a field may be; it may come once, but for those that are not kept. VISIBLE is ASCII that can be seen, SMALL below 128.
enum { TEXT_OF, VISIBLE, TEXTS, VISIBLES, NUMBER_OF, SMALL };
typedef struct { uint32_t number; int kind; size_t at; } Rule;  // where its Text or uint64_t goes; the last one's number is 0

static Walk walk_over(Text text) {
    const uint8_t *begin = (const uint8_t *)text.bytes;
    return (Walk){begin, text.size ? begin + text.size : begin};  // a field that is not there is NULL, to which C adds nothing
}

// A number of at most 35 bits. 0 if there is none.
static int take_number(Walk *walk, uint64_t *value) {
    *value = 0;
    for (int shift = 0; shift < 35 && walk->at < walk->end; shift += 7) {
        uint8_t byte = *walk->at++;
        *value |= (uint64_t)(byte & 0x7F) << shift;
        if (byte < 0x80) return 1;
    }
    return 0;
}

// The next field. 0 if it is no number and has no length, or does not fit.
static int take_field(Walk *walk, Field *field) {
    uint64_t key;
    if (!take_number(walk, &key) || key > 0xFF || !take_number(walk, &field->value)) return 0;
    field->number = (uint32_t)key >> 3;
    field->has_text = (key & 7) == 2;
    if (!field->has_text) return (key & 7) == 0;
    if (field->value > (uint64_t)(walk->end - walk->at)) return 0;
    field->text = (Text){(const char *)walk->at, (ptrdiff_t)field->value};
    walk->at += field->value;
    return 1;
}

// Takes the fields of a message by their rules. 0 if one has none, or is not what its rule says.
static int take_fields(Text message, const Rule *rules, void *into) {
    Field field;
    for (Walk walk = walk_over(message); walk.at < walk.end;) {
        const Rule *rule = rules;
        if (!take_field(&walk, &field)) return 0;
        while (rule->number && rule->number != field.number) rule++;
        if (!rule->number || field.has_text != (rule->kind < NUMBER_OF) || (rule->kind == SMALL && field.value > 127)) return 0;
        if ((rule->kind == VISIBLE || rule->kind == VISIBLES) && !is_within(field.text, '!', '~')) return 0;
        char *to = (char *)into + rule->at;
        if (rule->kind >= NUMBER_OF) *(uint64_t *)(void *)to = field.value;
        if (rule->kind > VISIBLE) continue;
        if (((Text *)(void *)to)->bytes) return 0;
        *(Text *)(void *)to = field.text;
    }
    return 1;
}

typedef struct { Text first, second; } Pair;
static const Rule pair_rules[] = {{1, VISIBLE, offsetof(Pair, first)}, {2, VISIBLE, offsetof(Pair, second)}, {0, 0, 0}};

// The name of a Resource whose namespace does not matter; empty if that cannot be a topic's or group's.
static Text name_of(Text resource) {
    Pair pair = {{NULL, 0}, {NULL, 0}};
    return take_fields(resource, pair_rules, &pair) && pair.second.size <= NAME_SIZE_MAX ? pair.second : (Text){NULL, 0};
}

// The message in a call's body; bytes is NULL if it is compressed, or not whole and alone.
static Text message_of(Text data) {
    Text none = {NULL, 0};
    if (data.size <= CALL_HEAD || data.bytes[0] || u32_at(data.bytes + 1) != data.size - CALL_HEAD) return none;
    return (Text){data.bytes + CALL_HEAD, data.size - CALL_HEAD};
}

// --- a send

typedef struct {
    Text message;  // of the request
    Text resource, system, body;  // of the message
    Text tag, message_id, digest, born_time, born_host, trace_context;  // of its system properties
    uint64_t encoding, kind, attempt, of_no_use, seconds, nanos;
    Text topic, keys;  // the latter in the room
    Pair properties[USER_PROPERTIES_MAX];
    int property_count;
} Sent;

#define AT(member) offsetof(Sent, member)
static const Rule request_rules[] = {{1, TEXT_OF, AT(message)}, {0, 0, 0}};
static const Rule message_rules[] = {
    {1, TEXT_OF, AT(resource)}, {2, TEXTS, 0}, {3, TEXT_OF, AT(system)}, {4, TEXT_OF, AT(body)}, {0, 0, 0},
};
static const Rule system_rules[] = {
    {1, VISIBLE, AT(tag)}, {2, VISIBLES, 0}, {3, VISIBLE, AT(message_id)}, {4, TEXT_OF, AT(digest)}, {5, SMALL, AT(encoding)},
    {6, SMALL, AT(kind)}, {7, TEXT_OF, AT(born_time)}, {8, VISIBLE, AT(born_host)},
    {13, NUMBER_OF, AT(of_no_use)},  // the queue is not the client's to choose
    {16, SMALL, AT(attempt)}, {18, VISIBLE, AT(trace_context)}, {0, 0, 0},
};
static const Rule digest_rules[] = {{1, NUMBER_OF, AT(of_no_use)}, {2, VISIBLES, 0}, {0, 0, 0}};  // nobody looks at it
static const Rule time_rules[] = {{1, NUMBER_OF, AT(seconds)}, {2, NUMBER_OF, AT(nanos)}, {0, 0, 0}};

typedef struct { char bytes[ROOM], *at; } Room;

static void put(Room *room, Text text) { room->at = put_text(room->at, text); }

#define LITERAL(text) ((Text){text, sizeof text - 1})

static void put_property(Room *room, Text name, Text value) {
    put(room, name);
    *room->at++ = 1;
    put(room, value);
    *room->at++ = 2;
}

// The user's properties, none of them twice.
static int take_properties(Sent *sent) {
    Field field;
    for (Walk walk = walk_over(sent->message); walk.at < walk.end && take_field(&walk, &field);) {
        if (field.number != 2) continue;
        if (sent->property_count == USER_PROPERTIES_MAX) return 0;
        Pair *pair = &sent->properties[sent->property_count++];
        if (!take_fields(field.text, pair_rules, pair) || !pair->first.size || !pair->second.size) return 0;
        for (Pair *each = sent->properties; each < pair; each++)
            if (is_same(each->first, pair->first)) return 0;
    }
    return 1;
}

// 0 for a message that asks for more than to be stored.
static int take_message(Text request, Sent *sent) {
    if (!request.bytes || !take_fields(request, request_rules, sent) || !take_fields(sent->message, message_rules, sent) ||
        !take_fields(sent->system, system_rules, sent) || !take_fields(sent->digest, digest_rules, sent) ||
        !take_fields(sent->born_time, time_rules, sent) || !take_properties(sent)) return 0;
    sent->topic = name_of(sent->resource);
    ptrdiff_t size = sent->system.size;
    for (const Pair *pair = sent->properties; pair < sent->properties + sent->property_count; pair++)
        size += pair->first.size + pair->second.size;
    return sent->topic.size && sent->body.size && size <= TEXTS_SIZE_MAX && sent->kind != TYPE_TRANSACTION &&
           is_alphanumeric(sent->message_id) && sent->message_id.size <= MESSAGE_ID_MAX &&
           !(sent->tag.size && memchr(sent->tag.bytes, '|', (size_t)sent->tag.size)) &&
           sent->seconds < SECONDS_MAX && sent->nanos < 1000000000;
}

static int64_t born_ms_of(const Sent *sent) { return (int64_t)sent->seconds * 1000 + (int64_t)sent->nanos / 1000000; }

static void put_keys(Room *room, Sent *sent) {
    Field field;
    char *before = room->at, *begin;
    put(room, LITERAL("KEYS\1"));
    begin = room->at;
    for (Walk walk = walk_over(sent->system); walk.at < walk.end && take_field(&walk, &field);) {
        if (field.number != 2) continue;
        if (room->at > begin) *room->at++ = ' ';
        put(room, field.text);
    }
    sent->keys = (Text){begin, room->at - begin};
    if (!sent->keys.size) room->at = before;
    else *room->at++ = 2;
}

static void put_properties(Room *room, Sent *sent, Text address) {
    room->at = room->bytes;
    for (const Pair *pair = sent->properties; pair < sent->properties + sent->property_count; pair++)
        put_property(room, pair->first, pair->second);
    put_property(room, LITERAL("UNIQ_KEY"), sent->message_id);
    put_property(room, LITERAL("PGROUP"), sent->topic);
    if (sent->tag.size) put_property(room, LITERAL("TAGS"), sent->tag);
    put_keys(room, sent);
    if (sent->trace_context.size) put_property(room, LITERAL("TRACE_CONTEXT"), sent->trace_context);
    put(room, LITERAL("RECONSUME_TIME\1"));
    room->at = put_number(room->at, (int64_t)sent->attempt);
    put_property(room, LITERAL("\2__BORNHOST"), sent->born_host.size ? sent->born_host : address);
    if (!sent->born_time.bytes) return;
    put(room, LITERAL("BORN_TIMESTAMP\1"));
    room->at = put_number(room->at, born_ms_of(sent));
    *room->at++ = 2;
}

// Whether a user property has a name of these; -1 with an exception.
static int has_name_of(const Sent *sent, PyObject *reserved) {
    for (const Pair *pair = sent->properties; pair < sent->properties + sent->property_count; pair++) {
        PyObject *name = PyBytes_FromStringAndSize(pair->first.bytes, pair->first.size);
        int found = name ? PySet_Contains(reserved, name) : -1;
        Py_XDECREF(name);
        if (found) return found;
    }
    return 0;
}

PyObject *cut_send(PyObject *Py_UNUSED(module), PyObject *args) {
    PyObject *data, *reserved;
    Text address;
    if (!PyArg_ParseTuple(args, "SO!s#", &data, &PyFrozenSet_Type, &reserved, &address.bytes, &address.size)) return NULL;
    Sent sent = {0};
    Room room;
    if (address.size > NAME_SIZE_MAX || !take_message(message_of(text_of(data)), &sent)) Py_RETURN_NONE;
    int is_reserved = has_name_of(&sent, reserved);
    if (is_reserved) return is_reserved < 0 ? NULL : Py_NewRef(Py_None);
    put_properties(&room, &sent, address);
    #define BYTES(text) (text).size ? (text).bytes : "", (Py_ssize_t)(text).size
    return Py_BuildValue("s#iLy#y#(y#y#y#)", BYTES(sent.topic), sent.encoding == ENCODING_GZIP ? COMPRESSED : 0, (long long)born_ms_of(&sent),
                         BYTES(sent.body), room.bytes, (Py_ssize_t)(room.at - room.bytes), BYTES(sent.message_id),
                         BYTES(sent.keys), BYTES(sent.tag));
}

// --- an acknowledgement

// Cuts a receipt handle of nine words: ``before`` is what it has before the queue offset. 0 if it is another.
static int cut_receipt(Text receipt, Text *before, int64_t *offset) {
    const char *begin = receipt.bytes, *words[RECEIPT_WORDS + 1] = {begin}, *end = begin + receipt.size;
    int count = 1;
    for (const char *at = begin; at < end; at++) {
        if (*at < 0x20 || *at > 0x7E || count > RECEIPT_WORDS) return 0;
        if (*at == ' ') words[count++] = at + 1;
    }
    if (count != RECEIPT_WORDS) return 0;
    *before = (Text){begin, words[OFFSET_WORD] - 1 - begin};
    const char *stop = words[OFFSET_WORD + 1] - 1;
    return read_digits(words[OFFSET_WORD], stop, offset) == stop;
}

typedef struct { Text group, topic, entry, id, receipt; } Acked;
static const Rule ack_rules[] = {
    {1, TEXT_OF, offsetof(Acked, group)}, {2, TEXT_OF, offsetof(Acked, topic)}, {3, TEXT_OF, offsetof(Acked, entry)}, {0, 0, 0},
};
static const Rule entry_rules[] = {{1, VISIBLE, offsetof(Acked, id)}, {2, TEXT_OF, offsetof(Acked, receipt)}, {0, 0, 0}};

PyObject *cut_ack(PyObject *Py_UNUSED(module), PyObject *data) {
    if (!PyBytes_Check(data)) return PyErr_Format(PyExc_TypeError, "bytes are wanted");
    Text message = message_of(text_of(data)), before;
    Acked acked = {.id = {NULL, 0}};
    int64_t offset;
    if (!message.bytes || !take_fields(message, ack_rules, &acked) || !take_fields(acked.entry, entry_rules, &acked))
        Py_RETURN_NONE;
    Text group = name_of(acked.group), topic = name_of(acked.topic);
    if (!group.size || !topic.size || !acked.id.size || acked.id.size > MESSAGE_ID_MAX || !acked.receipt.size ||
        !cut_receipt(acked.receipt, &before, &offset)) Py_RETURN_NONE;
    return Py_BuildValue("s#s#y#y#s#L", BYTES(group), BYTES(topic), BYTES(acked.id), BYTES(acked.receipt), BYTES(before),
                         (long long)offset);
}
