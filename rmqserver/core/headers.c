// Reads the headers of sends and pulls, and signed ones, and writes the answers of sends. It takes a header only if it is
// certain how the service would read it, by its typed decoder and by its forgiving way alike: everything else is left to these.
#include "bytes.h"

#define UNIQUE_KEY_MAX 64

typedef struct { const char *at, *end; } Scan;

// The fields of SendHeader, in order.
enum {
    PRODUCER_GROUP, TOPIC, DEFAULT_TOPIC, DEFAULT_TOPIC_QUEUE_NUMS, QUEUE_ID, SYS_FLAG, BORN_TIMESTAMP, FLAG, PROPERTIES,
    RECONSUME_TIMES, UNIT_MODE, MAX_RECONSUME_TIMES, BATCH, BROKER_NAME,
};
#define BIT(field) (1u << (field))
#define ANY_SCALAR (BIT(PRODUCER_GROUP) | BIT(DEFAULT_TOPIC) | BIT(UNIT_MODE) | BIT(BROKER_NAME))  // their values do not matter
#define NEEDED (BIT(TOPIC) | BIT(QUEUE_ID) | BIT(BORN_TIMESTAMP))

static const Text envelope_names[] = {{"code", 4}, {"opaque", 6}, {"flag", 4}, {"version", 7}, {"language", 8}, {"remark", 6}};
enum { CODE, OPAQUE, ENVELOPE_FLAG, VERSION, LANGUAGE, REMARK, ENVELOPE_NAMES };

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

// The character of a JSON escape at its backslash, and how long that is; 0 for zero, surrogates, and what is no escape.
static uint32_t escaped(const char *at, const char *end, int *spelled) {
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

// The end of the ASCII characters from here on that stand for themselves in a text: eight at a time, by the highest bits of
// what is left when the lowest of them, a quote and a backslash are taken away.
static const char *skip_verbatim(const char *at, const char *end) {
    const uint64_t ones = 0x0101010101010101u;
    for (uint64_t eight; end - at >= 8; at += 8) {
        memcpy(&eight, at, 8);
        if (__BYTE_ORDER__ == __ORDER_BIG_ENDIAN__) eight = __builtin_bswap64(eight);
        uint64_t others = eight | (eight - ' ' * ones) | ((eight ^ '"' * ones) - ones) | ((eight ^ '\\' * ones) - ones);
        if ((others &= 0x80 * ones)) return at + (__builtin_ctzll(others) >> 3);
    }
    while (at < end && *at >= ' ' && *at != '"' && *at != '\\' && !(*at & 0x80)) at++;
    return at;
}

// The scan is behind the first quote, and then behind the last.
static int take_text(Scan *scan, Scalar *value) {
    const char *at = scan->at, *end = scan->end;
    *value = (Scalar){.kind = TEXT, .text = {at, 0}};
    for (int size;; at += size) {
        at = skip_verbatim(at, end);
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
    skip_space(scan);
    const char *begin = scan->at;
    int is_whole = 1;
    if (take_char(scan, '"')) {
        is_whole = take_text(scan, value);
    } else {
        *value = (Scalar){.kind = NUMBER};
        if (!take_integer(scan, &value->number)) {
            value->kind = take_word(scan, "true", 4) ? TRUE : take_word(scan, "false", 5) ? FALSE : NOTHING;
            is_whole = value->kind != NOTHING || take_word(scan, "null", 4);
        }
    }
    value->spelled = (Text){begin, scan->at - begin};
    return is_whole;
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

// What is done with a field of a header; 0 if the header is not to be taken.
typedef int TakeField(void *into, int is_ext, Text key, const Scalar *value);

typedef struct { Scan scan; TakeField *take; void *into; int ext_count; } Walk;

// The scan is behind the brace of an object, and then behind its end.
static int take_object(Walk *walk, int is_ext) {
    Text key;
    Scalar value;
    if (take_char(&walk->scan, '}')) return 1;
    do {
        if (!take_key(&walk->scan, &key)) return 0;
        if (!is_ext && is_same(key, (Text){"extFields", 9})) {
            if (walk->ext_count++ || !take_char(&walk->scan, '{') || !take_object(walk, 1)) return 0;
        } else if (!take_scalar(&walk->scan, &value) || !walk->take(walk->into, is_ext, key, &value)) {
            return 0;
        }
    } while (take_char(&walk->scan, ','));
    return take_char(&walk->scan, '}');
}

// Takes all fields of a header that is an object with an object extFields, and no other in it. 0 if it is another.
static int take_fields(Text header, TakeField *take, void *into) {
    Walk walk = {{header.bytes, header.bytes + header.size}, take, into, 0};
    if (!take_char(&walk.scan, '{') || !take_object(&walk, 0)) return 0;
    skip_space(&walk.scan);
    return walk.ext_count && walk.scan.at == walk.scan.end;
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
    uint32_t seen[2], seen_envelope;  // bits of the fields whose names are those of code 10, or those of 310 and 320
    int64_t numbers[SEND_NAMES], envelope[ENVELOPE_NAMES];
    Text topic;
    Scalar properties;
} Fields;

static int take_field(Fields *fields, int field, const Scalar *value) {
    int64_t *number = &fields->numbers[field];
    if (BIT(field) & ANY_SCALAR) return 1;
    if (field == TOPIC) fields->topic = value->text;
    if (field == PROPERTIES) fields->properties = *value;
    if (field == TOPIC || field == PROPERTIES) return value->kind == TEXT && !(field == TOPIC && value->has_escapes);
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

static int take_envelope(Fields *fields, int name, const Scalar *value) {
    if (name == LANGUAGE) return value->kind != TRUE && value->kind != FALSE;
    if (name == REMARK) return value->kind == TEXT || value->kind == NOTHING;
    return name > REMARK || number_of(value, INT32_MIN, INT32_MAX, &fields->envelope[name]);
}

// A field of a JSON send.
static int take_of_send(void *into, int is_ext, Text key, const Scalar *value) {
    Fields *fields = into;
    int name = 0;
    if (is_ext) return take_ext(fields, key, value);
    while (name < ENVELOPE_NAMES && !is_same(key, envelope_names[name])) name++;
    if (name < ENVELOPE_NAMES && fields->seen_envelope & BIT(name)) return 0;
    fields->seen_envelope |= BIT(name);
    return take_envelope(fields, name, value);
}

// code i16 | language u8 | version i16 | opaque i32 | flag i32 | remark, its size in 4 bytes | ext fields, their size in 4: of
// each the name, its size in 2, and the value, its size in 4
static int take_binary(Text header, Fields *fields) {
    Scan scan = {header.bytes, header.bytes + header.size};
    Text remark, ext, key;
    Scalar value = {.kind = TEXT};
    if (header.size < BINARY_FLAG_AT + 4) return 0;
    fields->envelope[CODE] = u32_at(scan.at) >> 16;
    fields->envelope[OPAQUE] = (int32_t)u32_at(scan.at + BINARY_OPAQUE_AT);
    fields->envelope[ENVELOPE_FLAG] = (int32_t)u32_at(scan.at + BINARY_FLAG_AT);
    scan.at += BINARY_FLAG_AT + 4;
    if (!take_sized(&scan, 4, &remark) || !take_sized(&scan, 4, &ext) || scan.at != scan.end) return 0;
    for (scan.at = ext.bytes; scan.at < scan.end;) {
        if (!take_sized(&scan, 2, &key) || !take_sized(&scan, 4, &value.text) || !is_utf8(value.text)) return 0;
        if (!take_ext(fields, key, &value)) return 0;
    }
    return 1;
}

char *put_value(char *to, const Scalar *value) {
    if (!value->has_escapes) return put_text(to, value->text);
    for (const char *at = value->text.bytes, *end = at + value->text.size; at < end;) {
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

int begun_code(Text header) {
    static const char begin[] = "{\"code\":";
    const ptrdiff_t size = sizeof begin - 1;
    int64_t code;
    if (header.size < size || memcmp(header.bytes, begin, (size_t)size)) return -1;
    return read_digits(header.bytes + size, header.bytes + header.size, &code) && code <= INT32_MAX ? (int)code : -1;
}

int read_send(const Frame *frame, const SendRules *rules, char *room, Send *send) {
    if (frame->code >= 0 && frame->code != 10 && frame->code != 310 && frame->code != 320) return 0;
    Fields fields = {.rules = rules, .family = 1};
    if (frame->codec) {
        if (frame->codec != 1 || !take_binary(frame->header, &fields)) return 0;
    } else if (!take_fields(frame->header, take_of_send, &fields) || ~fields.seen_envelope & (BIT(CODE) | BIT(OPAQUE))) {
        return 0;
    }
    int64_t code = fields.envelope[CODE];
    int family = code != 10;
    if ((family && code != 310 && code != 320) || fields.seen[!family] || ~fields.seen[family] & NEEDED) return 0;
    if (fields.envelope[ENVELOPE_FLAG] & ~(int64_t)ONEWAY) return 0;
    *send = (Send){
        .code = (int32_t)code,
        .opaque = (int32_t)fields.envelope[OPAQUE],
        .queue_id = (int32_t)fields.numbers[QUEUE_ID],
        .sys_flag = (int32_t)fields.numbers[SYS_FLAG],
        .flag = (int32_t)fields.numbers[FLAG],
        .reconsume_times = (int32_t)fields.numbers[RECONSUME_TIMES],
        .born_ms = fields.numbers[BORN_TIMESTAMP],
        .is_oneway = fields.envelope[ENVELOPE_FLAG] != 0,
        .is_batch = fields.numbers[BATCH] != 0,
        .topic = fields.topic,
        .properties = {room, 0},
    };
    char *to = put_value(room, &fields.properties);
    if (to > room && to[-1] != 2) *to++ = 2;  // old clients leave out the last separator
    send->properties.size = to - room;
    return look_at_properties(send, rules);
}

// --- a pull's header: what is the same in each pull of a kind, and the numbers and the signature, which are not --------

enum { PULL_OPAQUE, QUEUE_OFFSET, COMMIT_OFFSET, SUSPEND_MILLIS, SIGNATURE, PULL_NAMES };
static const Text pull_names[PULL_NAMES] = {{"opaque", 6}, {"queueOffset", 11}, {"commitOffset", 12},
                                            {"suspendTimeoutMillis", 20}, {"Signature", 9}};

typedef struct { int seen; int64_t numbers[PULL_NAMES]; const char *copied; char *to; } PullFields;

static int take_of_pull(void *into, int is_ext, Text key, const Scalar *value) {
    PullFields *fields = into;
    int name = 0;
    while (name < PULL_NAMES && !is_same(key, pull_names[name])) name++;
    if (name == PULL_NAMES) return 1;
    // Named twice, or in the other object, it would not be what a decoder finds.
    if (fields->seen & BIT(name) || is_ext != (name != PULL_OPAQUE)) return 0;
    fields->seen |= BIT(name);
    fields->to = put_text(fields->to, (Text){fields->copied, value->spelled.bytes - fields->copied});
    fields->copied = value->spelled.bytes + value->spelled.size;
    return name == SIGNATURE ? value->kind == TEXT : number_of(value, 0, INT64_MAX, &fields->numbers[name]);
}

ptrdiff_t cut_pull(Text header, char *key, Pull *pull) {
    PullFields fields = {.copied = header.bytes, .to = key};
    if (header.size > PULL_HEADER_MAX || !take_fields(header, take_of_pull, &fields)) return 0;
    if (~fields.seen & (BIT(PULL_OPAQUE) | BIT(QUEUE_OFFSET)) || fields.numbers[PULL_OPAQUE] > INT32_MAX) return 0;
    *pull = (Pull){fields.numbers[PULL_OPAQUE], fields.numbers[QUEUE_OFFSET], fields.numbers[COMMIT_OFFSET]};
    return put_text(fields.to, (Text){fields.copied, header.bytes + header.size - fields.copied}) - key;
}

// --- signed fields ----------------------------------------------------------------------------------------------------

typedef struct { const Text *keys; ptrdiff_t count, found; Scalar *values; } SignedFields;

static int take_signed(void *into, int is_ext, Text key, const Scalar *value) {
    SignedFields *fields = into;
    if (!is_ext) return 1;
    if (fields->found == fields->count || value->kind != TEXT || !is_same(key, fields->keys[fields->found])) return 0;
    fields->values[fields->found++] = *value;
    return 1;
}

int cut_values(Text header, const Text *keys, ptrdiff_t count, Scalar *values) {
    SignedFields fields = {keys, count, 0, values};
    return take_fields(header, take_signed, &fields) && fields.found == count;
}

int is_spelled(const Scalar *value, Text text) { return !value->has_escapes && is_same(value->text, text); }

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
