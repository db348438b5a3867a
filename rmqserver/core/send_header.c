// Reads the headers of sends, and writes their answers. It takes a header only if it is certain how the service would
// read it, by its typed decoder and by its forgiving way alike: everything else is left to these.
#include "bytes.h"

#define UNIQUE_KEY_MAX 64

enum { TEXT, NUMBER, TRUE, FALSE, NOTHING };
typedef struct { int kind, has_escapes; Text text; int64_t number; } Scalar;
typedef struct { const char *at, *end; } Scan;

// The fields of SendHeader, in order.
enum {
    PRODUCER_GROUP, TOPIC, DEFAULT_TOPIC, DEFAULT_TOPIC_QUEUE_NUMS, QUEUE_ID, SYS_FLAG, BORN_TIMESTAMP, FLAG, PROPERTIES,
    RECONSUME_TIMES, UNIT_MODE, MAX_RECONSUME_TIMES, BATCH, BROKER_NAME,
};
#define BIT(field) (1u << (field))
#define ANY_SCALAR (BIT(PRODUCER_GROUP) | BIT(DEFAULT_TOPIC) | BIT(UNIT_MODE) | BIT(BROKER_NAME))  // their values do not matter
#define NEEDED (BIT(TOPIC) | BIT(QUEUE_ID) | BIT(BORN_TIMESTAMP))

static const Text envelope_names[] = {{"code", 4}, {"opaque", 6}, {"extFields", 9}, {"flag", 4},
                                      {"version", 7}, {"language", 8}, {"remark", 6}};
enum { CODE, OPAQUE, EXT_FIELDS, ENVELOPE_FLAG, VERSION, LANGUAGE, REMARK, ENVELOPE_NAMES };

uint8_t is_verbatim[256];

void prepare_texts(void) {
    for (int c = 0x20; c < 0x80; c++) is_verbatim[c] = c != '"' && c != '\\';
}

#define BINARY_OPAQUE_AT 5
#define BINARY_FLAG_AT 9

// --- JSON --------------------------------------------------------------------------------------------------------------

static void skip_space(Scan *scan) {
    while (scan->at < scan->end && (*scan->at == ' ' || *scan->at == '\n' || *scan->at == '\r' || *scan->at == '\t')) scan->at++;
}

static int take_char(Scan *scan, char wanted) {
    skip_space(scan);
    if (scan->at == scan->end || *scan->at != wanted) return 0;
    scan->at++;
    return 1;
}

static int is_next(Scan *scan, char wanted) {
    skip_space(scan);
    return scan->at < scan->end && *scan->at == wanted;
}

// The bytes of the character that is not ASCII; 0 if it is not UTF-8.
static int utf8_size(const uint8_t *at, ptrdiff_t room) {
    int size = *at >= 0xF0 ? 4 : *at >= 0xE0 ? 3 : 2;
    if (*at < 0xC2 || *at > 0xF4 || room < size) return 0;
    for (int number = 1; number < size; number++)
        if ((at[number] & 0xC0) != 0x80) return 0;
    if (size == 3 && ((*at == 0xE0 && at[1] < 0xA0) || (*at == 0xED && at[1] > 0x9F))) return 0;
    if (size == 4 && ((*at == 0xF0 && at[1] < 0x90) || (*at == 0xF4 && at[1] > 0x8F))) return 0;
    return size;
}

uint32_t escaped(const char *at, const char *end, int *spelled) {
    static const char names[] = "\"\\/bfnrt", meant[] = "\"\\/\b\f\n\r\t";
    if (end - at < 2 || !at[1]) return 0;
    if (at[1] != 'u') {
        const char *found = strchr(names, at[1]);
        *spelled = 2;
        return found ? (uint32_t)meant[found - names] : 0;
    }
    uint32_t code = 0;
    *spelled = 6;
    if (end - at < 6) return 0;
    for (int number = 2; number < 6; number++) {
        char c = at[number], small = (char)(c | 0x20);
        if (c >= '0' && c <= '9') code = code << 4 | (uint32_t)(c - '0');
        else if (small >= 'a' && small <= 'f') code = code << 4 | (uint32_t)(small - 'a' + 10);
        else return 0;
    }
    return code >= 0xD800 && code < 0xE000 ? 0 : code;
}

// The scan is behind the first quote, and then behind the last.
static int take_text(Scan *scan, Scalar *value) {
    const char *at = scan->at, *end = scan->end;
    *value = (Scalar){.kind = TEXT, .text = {at, 0}};
    for (int size;; at += size) {
        while (at < end && is_verbatim[(uint8_t)*at]) at++;
        if (at == end) return 0;
        if (*at == '"') {
            value->text.size = at - value->text.bytes;
            scan->at = at + 1;
            return 1;
        }
        if (*at == '\\') {
            value->has_escapes = 1;
            if (!escaped(at, end, &size)) return 0;
        } else if (!(size = utf8_size((const uint8_t *)at, end - at))) return 0;
    }
}

static int take_integer(Scan *scan, int64_t *number) {
    int is_negative = scan->at < scan->end && *scan->at == '-';
    const char *first = scan->at + is_negative, *at = read_digits(first, scan->end, number);
    if (!at || (is_negative && *first == '0')) return 0;
    if (at < scan->end && (*at == '.' || *at == 'e' || *at == 'E')) return 0;
    if (is_negative) *number = -*number;
    scan->at = at;
    return 1;
}

static int take_word(Scan *scan, const char *word, ptrdiff_t size) {
    if (scan->end - scan->at < size || memcmp(scan->at, word, (size_t)size)) return 0;
    scan->at += size;
    return 1;
}

static int take_scalar(Scan *scan, Scalar *value) {
    if (take_char(scan, '"')) return take_text(scan, value);
    *value = (Scalar){.kind = NUMBER};
    if (take_integer(scan, &value->number)) return 1;
    value->kind = take_word(scan, "true", 4) ? TRUE : take_word(scan, "false", 5) ? FALSE : NOTHING;
    return value->kind != NOTHING || take_word(scan, "null", 4);
}

// A number, quoted or not.
static int number_of(const Scalar *value, int64_t min, int64_t max, int64_t *number) {
    if (value->kind == NUMBER) {
        *number = value->number;
    } else {
        if (value->kind != TEXT) return 0;
        Scan scan = {value->text.bytes, value->text.bytes + value->text.size};
        if (!take_integer(&scan, number) || scan.at != scan.end) return 0;
    }
    return *number >= min && *number <= max;
}

static int bool_of(const Scalar *value, int64_t *found) {
    Text text = value->text;
    *found = value->kind == TRUE;
    if (value->kind != TEXT) return value->kind == TRUE || value->kind == FALSE;
    *found = is_same(text, (Text){"true", 4}) || is_same(text, (Text){"1", 1});
    return *found || is_same(text, (Text){"false", 5}) || is_same(text, (Text){"0", 1});
}

// The scan is behind a brace or a comma, and then behind a key and its colon.
static int take_key(Scan *scan, Text *key) {
    Scalar value;
    if (!take_char(scan, '"') || !take_text(scan, &value) || value.has_escapes || !take_char(scan, ':')) return 0;
    *key = value.text;
    return 1;
}

// --- texts of the binary codec -----------------------------------------------------------------------------------------

// The scan is behind a text whose size stood before it, in 2 or 4 bytes.
static int take_sized(Scan *scan, int width, Text *text) {
    if (scan->end - scan->at < width) return 0;
    ptrdiff_t size = width == 4 ? (int32_t)u32_at(scan->at) : (int16_t)((uint8_t)scan->at[0] << 8 | (uint8_t)scan->at[1]);
    scan->at += width;
    if (size < 0 || size > scan->end - scan->at) return 0;
    *text = (Text){scan->at, size};
    scan->at += size;
    return 1;
}

static int is_utf8(Text text) {
    for (const uint8_t *at = (const uint8_t *)text.bytes, *end = at + text.size; at < end;) {
        int size = *at < 0x80 ? 1 : utf8_size(at, end - at);
        if (!size) return 0;
        at += size;
    }
    return 1;
}

// --- a send's header ---------------------------------------------------------------------------------------------------

typedef struct {
    const SendRules *rules;
    int family, next;  // where the last name was found
    uint32_t seen[2];  // bits of the fields whose names are those of code 10, or those of 310 and 320
    int64_t numbers[SEND_NAMES];
    Text topic, properties;
    int has_escapes;
} Fields;

static int take_field(Fields *fields, int field, const Scalar *value) {
    int64_t *number = &fields->numbers[field];
    if (BIT(field) & ANY_SCALAR) return 1;
    if (field == TOPIC || field == PROPERTIES) {
        if (field == TOPIC) fields->topic = value->text;
        else {
            fields->properties = value->text;
            fields->has_escapes = value->has_escapes;
        }
        return value->kind == TEXT && !(field == TOPIC && value->has_escapes);
    }
    if (field == BATCH) return bool_of(value, number);
    if (field == BORN_TIMESTAMP) return number_of(value, INT64_MIN, INT64_MAX, number);
    return (field == MAX_RECONSUME_TIMES && value->kind == NOTHING) || number_of(value, INT32_MIN, INT32_MAX, number);
}

// Keys nearly always come in the order of the fields, so the search begins behind the last one found.
static int field_of(Fields *fields, Text key) {
    for (int both = 0; both < 2; both++, fields->family = !fields->family)
        for (int number = 0; number < SEND_NAMES; number++) {
            int field = (fields->next + number) % SEND_NAMES;
            if (!is_same(key, fields->rules->names[fields->family][field])) continue;
            fields->next = field + 1;
            return field;
        }
    return -1;
}

// 0 if it is a field that came before, or one with a value that may not be taken as it is.
static int take_ext(Fields *fields, Text key, const Scalar *value) {
    int field = field_of(fields, key);
    if (field < 0) return 1;
    uint32_t *seen = &fields->seen[fields->family];
    if (*seen & BIT(field) || !take_field(fields, field, value)) return 0;
    *seen |= BIT(field);
    return 1;
}

static int take_json_fields(Scan *scan, Fields *fields) {
    if (!take_char(scan, '{')) return 0;
    if (take_char(scan, '}')) return 1;
    do {
        Text key;
        Scalar value;
        if (!take_key(scan, &key) || !take_scalar(scan, &value) || !take_ext(fields, key, &value)) return 0;
    } while (take_char(scan, ','));
    return take_char(scan, '}');
}

static int take_json(Scan *scan, Fields *fields, int64_t *numbers) {
    uint32_t seen = 0;
    if (!take_char(scan, '{')) return 0;
    do {
        Text key;
        Scalar value;
        int name = 0;
        if (!take_key(scan, &key)) return 0;
        while (name < ENVELOPE_NAMES && !is_same(key, envelope_names[name])) name++;
        if (name < ENVELOPE_NAMES) {
            if (seen & BIT(name)) return 0;
            seen |= BIT(name);
        }
        if (name == EXT_FIELDS) {
            if (!is_next(scan, '{') || !take_json_fields(scan, fields)) return 0;
        } else {
            if (!take_scalar(scan, &value)) return 0;
            if (name == LANGUAGE && (value.kind == TRUE || value.kind == FALSE)) return 0;
            if (name == REMARK && value.kind != TEXT && value.kind != NOTHING) return 0;
            if (name < LANGUAGE && !number_of(&value, INT32_MIN, INT32_MAX, &numbers[name])) return 0;
        }
    } while (take_char(scan, ','));
    if (!take_char(scan, '}')) return 0;
    skip_space(scan);
    return scan->at == scan->end && !(~seen & (BIT(CODE) | BIT(OPAQUE) | BIT(EXT_FIELDS)));
}

// code i16 | language u8 | version i16 | opaque i32 | flag i32 | remark, its size in 4 bytes | ext fields, their size in 4: of
// each the name, its size in 2, and the value, its size in 4
static int take_binary(Scan *scan, Fields *fields, int64_t *numbers) {
    const char *at = scan->at;
    Text remark, ext, key;
    Scalar value = {.kind = TEXT};
    if (scan->end - at < BINARY_FLAG_AT + 4) return 0;
    numbers[CODE] = u32_at(at) >> 16;
    numbers[OPAQUE] = (int32_t)u32_at(at + BINARY_OPAQUE_AT);
    numbers[ENVELOPE_FLAG] = (int32_t)u32_at(at + BINARY_FLAG_AT);
    scan->at += BINARY_FLAG_AT + 4;
    if (!take_sized(scan, 4, &remark) || !take_sized(scan, 4, &ext) || scan->at != scan->end) return 0;
    for (scan->at = ext.bytes; scan->at < scan->end;) {
        if (!take_sized(scan, 2, &key) || !take_sized(scan, 4, &value.text) || !is_utf8(value.text)) return 0;
        if (!take_ext(fields, key, &value)) return 0;
    }
    return 1;
}

char *put_unescaped(char *to, Text text) {
    for (const char *at = text.bytes, *end = at + text.size; at < end;) {
        if (*at != '\\') {
            *to++ = *at++;
            continue;
        }
        int spelled;
        uint32_t c = escaped(at, end, &spelled);
        at += spelled;
        if (c < 0x80) {
            *to++ = (char)c;
        } else if (c < 0x800) {
            *to++ = (char)(0xC0 | c >> 6);
            *to++ = (char)(0x80 | (c & 0x3F));
        } else {
            *to++ = (char)(0xE0 | c >> 12);
            *to++ = (char)(0x80 | (c >> 6 & 0x3F));
            *to++ = (char)(0x80 | (c & 0x3F));
        }
    }
    return to;
}

// 0 if the message asks for more than to be stored.
static int look_at_properties(Send *send, const SendRules *rules) {
    int has_wait = 0, more;
    Text rest = send->properties, name, value;
    send->waits_until_safe = 1;
    while ((more = next_property(&rest, &name, &value))) {
        if (more < 0 || !name.size || !value.size) return 0;
        if (is_same(name, (Text){"UNIQ_KEY", 8})) {
            if (!is_alphanumeric(value) || value.size > UNIQUE_KEY_MAX) return 0;
            send->unique_key = value;
        } else if (is_same(name, (Text){"WAIT", 4})) {
            if (has_wait++) return 0;
            send->waits_until_safe = !is_same(value, (Text){"false", 5});
        } else {
            for (ptrdiff_t number = 0; number < rules->mark_count; number++)
                if (is_same(name, rules->marks[number])) return 0;
        }
    }
    return 1;
}

int may_be_send(const Frame *frame) {
    static const char code[] = "{\"code\":";
    const ptrdiff_t size = sizeof code - 1;
    Text header = frame->header;
    if (frame->codec) return frame->codec == 1;
    if (header.size < size + 4 || memcmp(header.bytes, code, (size_t)size)) return 1;
    const char *digits = header.bytes + size;
    return !memcmp(digits, "310,", 4) || !memcmp(digits, "10,", 3) || !memcmp(digits, "320,", 4);
}

int read_send(const Frame *frame, const SendRules *rules, char *room, Send *send) {
    Scan scan = {frame->header.bytes, frame->header.bytes + frame->header.size};
    Fields fields = {.rules = rules, .family = 1};
    int64_t envelope[ENVELOPE_NAMES] = {0};
    if (!(frame->codec ? take_binary : take_json)(&scan, &fields, envelope)) return 0;
    int64_t code = envelope[CODE];
    int family = code != 10;
    if ((family && code != 310 && code != 320) || fields.seen[!family] || ~fields.seen[family] & NEEDED) return 0;
    if (envelope[ENVELOPE_FLAG] & ~(int64_t)ONEWAY) return 0;
    *send = (Send){
        .code = (int32_t)code,
        .opaque = (int32_t)envelope[OPAQUE],
        .queue_id = (int32_t)fields.numbers[QUEUE_ID],
        .sys_flag = (int32_t)fields.numbers[SYS_FLAG],
        .flag = (int32_t)fields.numbers[FLAG],
        .reconsume_times = (int32_t)fields.numbers[RECONSUME_TIMES],
        .born_ms = fields.numbers[BORN_TIMESTAMP],
        .is_oneway = envelope[ENVELOPE_FLAG] != 0,
        .is_batch = fields.numbers[BATCH] != 0,
        .topic = fields.topic,
        .properties = {room, 0},
    };
    char *to = room;
    to = fields.has_escapes ? put_unescaped(to, fields.properties) : put_text(to, fields.properties);
    if (to > room && to[-1] != 2) *to++ = 2;  // old clients leave out the last separator
    send->properties.size = to - room;
    return look_at_properties(send, rules);
}

// --- its answer --------------------------------------------------------------------------------------------------------

ptrdiff_t answer_room(const Answer *answer, const Text *pieces) {
    ptrdiff_t size = 8 + 3 * NUMBER_SIZE_MAX + 5 * 4 + answer->unique_key.size;
    for (int number = 0; number < ANSWER_PIECES; number++) size += pieces[number].size;
    return size + answer->count * (2 * answer->host.size + 17);
}

// A value goes behind its piece, in the binary codec behind its size.
static char *begin_value(char *to, Text piece, int codec) { return put_text(to, piece) + (codec ? 4 : 0); }

static char *end_value(char *value, char *end, int codec) {
    if (codec) put_big_endian((uint8_t *)value - 4, (uint64_t)(end - value), 4);
    return end;
}

static char *put_ids(char *at, const Answer *answer) {
    for (ptrdiff_t number = 0; number < answer->count; number++) {
        if (number) *at++ = ',';
        for (ptrdiff_t place = 0; place < answer->host.size; place++) at = put_hex(at, (uint8_t)answer->host.bytes[place]);
        for (int shift = 56; shift >= 0; shift -= 8) at = put_hex(at, (uint8_t)((uint64_t)answer->log_offsets[number] >> shift));
    }
    return at;
}

char *put_answer(char *to, const Answer *answer, const Text *pieces) {
    const int codec = answer->codec;
    char *header = to + 8, *ext = codec ? begin_value(header, pieces[5], codec) : header;
    char *value = begin_value(ext, pieces[0], codec), *at = end_value(value, put_ids(value, answer), codec);
    value = begin_value(at, pieces[1], codec);
    at = end_value(value, put_number(value, answer->queue_id), codec);
    value = begin_value(at, pieces[2], codec);
    at = end_value(value, put_number(value, answer->queue_offset), codec);
    if (answer->unique_key.size) {
        value = begin_value(at, pieces[3], codec);
        at = end_value(value, put_text(value, answer->unique_key), codec);
    }
    at = put_text(at, pieces[4]);
    if (codec) {
        put_big_endian((uint8_t *)header + BINARY_OPAQUE_AT, (uint32_t)answer->opaque, 4);
        end_value(ext, at, codec);
    } else {
        at = put_text(put_number(at, answer->opaque), pieces[5]);
    }
    put_big_endian((uint8_t *)to, (uint64_t)(at - header + 4), 4);
    put_big_endian((uint8_t *)to + 4, (uint64_t)(codec << 24 | (at - header)), 4);
    return at;
}
