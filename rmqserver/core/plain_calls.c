// Requests of gRPC that ask for nothing unusual, cut out of their bytes (protobuf). simple.py says what each function does;
// what is not plain here is left to protobuf.
#include "glue.h"

#define CALL_HEAD 5  // compressed u8 | length u32
#define USER_PROPERTIES_MAX 16
#define TEXTS_SIZE_MAX 4096  // of all texts of a message
#define ROOM (TEXTS_SIZE_MAX + 1024)  // for its properties: their separators, our names and numbers
#define MESSAGE_ID_MAX 50  // of the answer's entry, one byte tells the length
#define TOPIC_MAX 127
#define ENCODING_GZIP 2
#define TYPE_TRANSACTION 4
#define COMPRESSED 1  // of a sysFlag
#define RECEIPT_WORDS 9
#define OFFSET_WORD 7
#define SECONDS_MAX (1LL << 34)

typedef struct { const uint8_t *at, *end; } Walk;  // over the fields of a message
typedef struct { uint32_t number; int has_text; Text text; uint64_t value; } Field;

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

// Whether a field is ASCII that can be seen.
static int is_visible(const Field *field) { return field->has_text && is_within(field->text, '!', '~'); }

// A field's text, which must be visible, and come once. 0 if not.
static int set_text(Text *text, const Field *field) {
    if (text->bytes || !is_visible(field)) return 0;
    *text = field->text;
    return 1;
}

// Two texts with the numbers 1 and 2, of which the last must be there. 0 if they are not.
static int take_pair(Text given, Text *first, Text *second) {
    *first = *second = (Text){NULL, 0};
    Field field;
    for (Walk walk = walk_over(given); walk.at < walk.end;)
        if (!take_field(&walk, &field) || field.number < 1 || field.number > 2 ||
            !set_text(field.number == 1 ? first : second, &field)) return 0;
    return second->size > 0;
}

// The name of a Resource whose namespace does not matter.
static int take_name(const Field *field, Text *name) {
    Text ignored;
    return field->has_text && !name->bytes && take_pair(field->text, &ignored, name) && name->size <= TOPIC_MAX;
}

// The message in a call's body; bytes is NULL if it is compressed, or not whole and alone.
static Text message_of(Text data) {
    Text none = {NULL, 0};
    if (data.size <= CALL_HEAD || data.bytes[0] || u32_at(data.bytes + 1) != data.size - CALL_HEAD) return none;
    return (Text){data.bytes + CALL_HEAD, data.size - CALL_HEAD};
}

// --- a send

typedef struct {
    Text topic, body, tag, message_id, born_host, trace_context, system;
    Text names[USER_PROPERTIES_MAX], values[USER_PROPERTIES_MAX];
    int property_count, has_born_time, is_packed;
    Text keys;  // in the room
    int64_t born_ms;
    uint32_t attempt;
} Sent;

typedef struct { char bytes[ROOM], *at; } Room;

static void put(Room *room, Text text) { room->at = put_text(room->at, text); }

#define LITERAL(text) ((Text){text, sizeof text - 1})

static void put_property(Room *room, Text name, Text value) {
    put(room, name);
    *room->at++ = 1;
    put(room, value);
    *room->at++ = 2;
}

static int take_born(Text given, int64_t *born_ms) {
    uint64_t seconds = 0, nanos = 0;
    Field field;
    for (Walk walk = walk_over(given); walk.at < walk.end;) {
        if (!take_field(&walk, &field) || field.has_text || field.number < 1 || field.number > 2) return 0;
        *(field.number == 1 ? &seconds : &nanos) = field.value;
    }
    *born_ms = (int64_t)seconds * 1000 + (int64_t)nanos / 1000000;
    return seconds < SECONDS_MAX && nanos < 1000000000;
}

static int is_digest(Text given) {  // nobody looks at it
    Field field;
    for (Walk walk = walk_over(given); walk.at < walk.end;)
        if (!take_field(&walk, &field) || (field.number == 1 ? field.has_text : field.number == 2 ?
            !is_visible(&field) : 1)) return 0;
    return 1;
}

// The fields of SystemProperties but for its keys. 0 for one with which a message asks for more.
static int take_system(Sent *sent) {
    Field field;
    for (Walk walk = walk_over(sent->system); walk.at < walk.end;) {
        if (!take_field(&walk, &field)) return 0;
        int fits = 0;
        switch (field.number) {
            case 1: fits = set_text(&sent->tag, &field) && !memchr(sent->tag.bytes, '|', (size_t)sent->tag.size); break;
            case 2: fits = is_visible(&field); break;
            case 3: fits = set_text(&sent->message_id, &field); break;
            case 4: fits = field.has_text && is_digest(field.text); break;
            case 5: fits = !field.has_text && field.value < 128; sent->is_packed = field.value == ENCODING_GZIP; break;
            case 6: fits = !field.has_text && field.value < 128 && field.value != TYPE_TRANSACTION; break;
            case 7:
                fits = field.has_text && !sent->has_born_time && take_born(field.text, &sent->born_ms);
                sent->has_born_time = 1;
                break;
            case 8: fits = set_text(&sent->born_host, &field); break;
            case 13: fits = !field.has_text; break;  // the queue is not the client's to choose
            case 16: fits = !field.has_text && field.value < 128; sent->attempt = (uint32_t)field.value; break;
            case 18: fits = set_text(&sent->trace_context, &field); break;
        }
        if (!fits) return 0;
    }
    return is_alphanumeric(sent->message_id) && sent->message_id.size <= MESSAGE_ID_MAX;
}

static int take_user_property(Sent *sent, const Field *field) {
    int count = sent->property_count++;
    if (count == USER_PROPERTIES_MAX || !field->has_text) return 0;
    if (!take_pair(field->text, &sent->names[count], &sent->values[count]) || !sent->names[count].size) return 0;
    for (int each = 0; each < count; each++)
        if (is_same(sent->names[each], sent->names[count])) return 0;
    return 1;
}

static int take_message(Text data, Sent *sent) {
    Text message = message_of(data);
    Field field;
    Walk walk = walk_over(message);
    if (!message.bytes || !take_field(&walk, &field) || field.number != 1 || !field.has_text || walk.at != walk.end) return 0;
    for (walk = walk_over(field.text); walk.at < walk.end;) {
        if (!take_field(&walk, &field)) return 0;
        int fits = 0;
        switch (field.number) {
            case 1: fits = take_name(&field, &sent->topic); break;
            case 2: fits = take_user_property(sent, &field); break;
            case 3: fits = field.has_text && !sent->system.bytes; sent->system = field.text; break;
            case 4: fits = field.has_text && !sent->body.bytes; sent->body = field.text; break;
        }
        if (!fits) return 0;
    }
    if (!sent->topic.size || !sent->body.size || !take_system(sent)) return 0;
    ptrdiff_t size = sent->system.size;
    for (int each = 0; each < sent->property_count; each++) size += sent->names[each].size + sent->values[each].size;
    return size <= TEXTS_SIZE_MAX;
}

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
    for (int each = 0; each < sent->property_count; each++) put_property(room, sent->names[each], sent->values[each]);
    put_property(room, LITERAL("UNIQ_KEY"), sent->message_id);
    put_property(room, LITERAL("PGROUP"), sent->topic);
    if (sent->tag.size) put_property(room, LITERAL("TAGS"), sent->tag);
    put_keys(room, sent);
    if (sent->trace_context.size) put_property(room, LITERAL("TRACE_CONTEXT"), sent->trace_context);
    put(room, LITERAL("RECONSUME_TIME\1"));
    room->at = put_number(room->at, sent->attempt);
    put_property(room, LITERAL("\2__BORNHOST"), sent->born_host.size ? sent->born_host : address);
    if (!sent->has_born_time) return;
    put(room, LITERAL("BORN_TIMESTAMP\1"));
    room->at = put_number(room->at, sent->born_ms);
    *room->at++ = 2;
}

// Whether a user property has a name of these; -1 with an exception.
static int has_name_of(const Sent *sent, PyObject *reserved) {
    for (int each = 0; each < sent->property_count; each++) {
        PyObject *name = PyBytes_FromStringAndSize(sent->names[each].bytes, sent->names[each].size);
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
    if (address.size > TOPIC_MAX || !take_message(text_of(data), &sent)) Py_RETURN_NONE;
    int is_reserved = has_name_of(&sent, reserved);
    if (is_reserved) return is_reserved < 0 ? NULL : Py_NewRef(Py_None);
    put_properties(&room, &sent, address);
    #define BYTES(text) (text).size ? (text).bytes : "", (Py_ssize_t)(text).size
    return Py_BuildValue("s#iLy#y#(y#y#y#)", BYTES(sent.topic), sent.is_packed ? COMPRESSED : 0, (long long)sent.born_ms,
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

PyObject *cut_ack(PyObject *Py_UNUSED(module), PyObject *data) {
    if (!PyBytes_Check(data)) return PyErr_Format(PyExc_TypeError, "bytes are wanted");
    Text message = message_of(text_of(data)), names[2] = {{NULL, 0}, {NULL, 0}}, id = {NULL, 0}, receipt = {NULL, 0};
    Field field;
    if (!message.bytes) Py_RETURN_NONE;
    for (Walk walk = walk_over(message); walk.at < walk.end;) {
        if (!take_field(&walk, &field)) Py_RETURN_NONE;
        if (field.number == 1 || field.number == 2) {
            if (!take_name(&field, &names[field.number - 1])) Py_RETURN_NONE;
            continue;
        }
        if (field.number != 3 || !field.has_text || id.bytes) Py_RETURN_NONE;
        for (Walk entry = walk_over(field.text); entry.at < entry.end;) {
            if (!take_field(&entry, &field) || !field.has_text || field.number > 2) Py_RETURN_NONE;
            if (field.number == 1 && set_text(&id, &field) && id.size <= MESSAGE_ID_MAX) continue;
            if (field.number != 2 || receipt.bytes) Py_RETURN_NONE;
            receipt = field.text;
        }
        if (!id.size || !receipt.size) Py_RETURN_NONE;
    }
    if (!names[0].size || !names[1].size || !receipt.size) Py_RETURN_NONE;
    Text before;
    int64_t offset;
    if (!cut_receipt(receipt, &before, &offset)) Py_RETURN_NONE;
    return Py_BuildValue("s#s#y#y#s#L", BYTES(names[0]), BYTES(names[1]), BYTES(id), BYTES(receipt), BYTES(before),
                         (long long)offset);
}
