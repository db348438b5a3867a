// The byte layer of the core: no Python in it, but for ``odd_hash``. Every length that came from outside is compared with the
// bytes at hand, by subtraction, before it is used; text is a pair of pointer and size.
#ifndef RMQ_CORE_BYTES_H
#define RMQ_CORE_BYTES_H
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#define UNIT_SIZE 20  // of a consume queue: log offset i64 | record size i32 | tags code i64
#define RECORD_SIZE_MIN 91
#define MAGIC_V1 0xDAA320A7u
#define MAGIC_V2 0xDAA320ABu
#define BORN_HOST_V6 0x10
#define STORE_HOST_V6 0x20
#define HOST_V4_SIZE 8
#define HOST_V6_SIZE 20
#define PROPERTIES_SIZE_MAX 32767
#define BATCH_COUNT_MAX 250000
#define TOPIC_V1_SIZE_MAX 127

typedef struct { const char *bytes; ptrdiff_t size; } Text;  // bytes is NULL if there is none
typedef struct {  // of the wire, without its lengths; codec 0 is JSON, 1 ROCKETMQ's
    Text header, body;
    int codec, code;  // the code is -1 if the header does not begin with it
} Frame;
typedef struct {  // a message on its way into the store; hosts are 4 or 16 address bytes and the port
    int32_t queue_id, flag, sys_flag, reconsume_times;
    int64_t born_ms, prepared_offset;
    Text born_host, store_host, body, properties;
    const int64_t *tags_code;  // what its unit has instead of its tag's code; may be NULL
} Message;

static inline uint32_t u32_at(const char *at) {
    const uint8_t *bytes = (const uint8_t *)at;
    return (uint32_t)bytes[0] << 24 | (uint32_t)bytes[1] << 16 | (uint32_t)bytes[2] << 8 | bytes[3];
}

static inline int64_t i64_at(const char *at) { return (int64_t)((uint64_t)u32_at(at) << 32 | u32_at(at + 4)); }

static inline uint8_t *put_big_endian(uint8_t *to, uint64_t value, int size) {
    for (int at = size - 1; at >= 0; at--, value >>= 8) to[at] = (uint8_t)value;
    return to + size;
}

// These write behind ``to`` and return the end.
static inline char *put_text(char *to, Text text) {
    if (text.size) memcpy(to, text.bytes, (size_t)text.size);
    return to + text.size;
}

#define NUMBER_SIZE_MAX 20  // of an int64, with its sign

static inline char *put_number(char *to, int64_t number) {
    char digits[NUMBER_SIZE_MAX], *at = digits + NUMBER_SIZE_MAX;
    uint64_t rest = number < 0 ? 0 - (uint64_t)number : (uint64_t)number;
    do *--at = (char)('0' + rest % 10);
    while (rest /= 10);
    if (number < 0) *--at = '-';
    return put_text(to, (Text){at, digits + NUMBER_SIZE_MAX - at});
}

static inline char *put_hex(char *to, uint8_t byte) {
    *to++ = "0123456789ABCDEF"[byte >> 4];
    *to++ = "0123456789ABCDEF"[byte & 15];
    return to;
}

// Reads a number as everybody writes it: no sign, no leading zero, 18 digits at most. Returns its end; NULL for any other.
static inline const char *read_digits(const char *at, const char *end, int64_t *number) {
    const char *start = at;
    for (*number = 0; at < end && *at >= '0' && *at <= '9'; at++) {
        if (at - start == 18) return NULL;
        *number = 10 * *number + (*at - '0');
    }
    return at == start || (*start == '0' && at - start > 1) ? NULL : at;
}

// Whether the text has characters, and all lie between these two; ASCII that is no control character is ' ' to '~'.
static inline int is_within(Text text, char low, char high) {
    for (ptrdiff_t at = 0; at < text.size; at++)
        if (text.bytes[at] < low || text.bytes[at] > high) return 0;
    return text.size > 0;
}

static inline int is_alphanumeric(Text text) {
    for (ptrdiff_t at = 0; at < text.size; at++) {
        char c = text.bytes[at], small = (char)(c | 0x20);
        if (!(c >= '0' && c <= '9') && !(small >= 'a' && small <= 'z')) return 0;
    }
    return text.size > 0;
}

static inline int is_same(Text one, Text other) {
    return one.size == other.size && !memcmp(one.bytes, other.bytes, (size_t)one.size);
}

// Continues Java's String.hashCode with these characters. -1 if one is not ASCII.
static inline int extend_hash(uint32_t *hash, Text text) {
    uint32_t value = *hash;
    for (ptrdiff_t at = 0; at < text.size; at++) {
        if (text.bytes[at] & 0x80) return -1;
        value = 31 * value + (uint8_t)text.bytes[at];
    }
    *hash = value;
    return 0;
}

// Math.abs of a hash; 0 for the only number that has none.
static inline uint32_t absolute(uint32_t hash) { return hash < 0x80000000u ? hash : (0u - hash) & 0x7FFFFFFFu; }

// Puts an IPv4 or IPv6 host's bits into a sysFlag.
static inline int32_t with_host_bits(int32_t sys_flag, Text born_host, Text store_host) {
    return (sys_flag & ~(BORN_HOST_V6 | STORE_HOST_V6)) | (born_host.size == HOST_V6_SIZE ? BORN_HOST_V6 : 0) |
           (store_host.size == HOST_V6_SIZE ? STORE_HOST_V6 : 0);
}

// --- crc32.c

void prepare_crc32(void);  // once, before the other
uint32_t crc32_of(Text text);  // zlib's

// --- records.c

typedef struct {
    int64_t log_offset, queue_offset, store_ms;
    int32_t size, queue_id;
    uint32_t magic, sys_flag, crc;
    Text body, topic, properties;  // these end with the record
    ptrdiff_t properties_size;  // what the record says; another number is damage
} Record;

// Reads the record at the start of ``room`` bytes. 0 if its lengths do not fit it.
int read_record(const char *at, ptrdiff_t room, Record *record);

// Cuts the next property off a text: 1, 0 at its end, -1 if it is none. The last one may lack its separator.
int next_property(Text *rest, Text *name, Text *value);

// The last of several values counts; an empty value counts as none. Each name ends with the separator, 0x01.
void find_values(Text properties, const Text *names, ptrdiff_t count, Text *values);

enum { OF_KEY, OF_NO_KEY, OF_TAG };  // kinds of entries; a message without keys and tags has one OF_NO_KEY
typedef struct { uint32_t key_hash, kind; int64_t log_offset, store_ms; } Entry;
typedef struct { Text unique_key, keys, tags; } Keys;

Keys keys_of(Text properties);
ptrdiff_t entry_count_max(const Keys *keys);

// Both continue Java's String.hashCode with these characters; -1 if that failed. ``odd_hash`` does it by Python, and is
// called for text that is not ASCII.
int extend_any_hash(uint32_t *hash, Text text);
int odd_hash(uint32_t *hash, Text text);

// Writes the entries of one message: unique key, keys, tag. Returns how many; -1 if a hash failed.
ptrdiff_t put_entries(Entry *to, uint32_t prefix_hash, const Keys *keys, int64_t log_offset, int64_t store_ms);

#define SLOTS_PER_PAGE_SHIFT 10

typedef struct {
    int32_t *slots;
    uint8_t *dirty;  // one for each page of slots
    uint32_t slot_count;
} Slots;

// Writes the units and links each into its slot; returns how many slots were not used before.
int32_t chain_up(const Entry *entries, ptrdiff_t unit_count, uint8_t *unit, Slots slots, int32_t number, int64_t begin_ms);

typedef struct { int64_t log_offset, queue_offset, store_ms; int32_t size; } Spot;  // where a new record goes

// The size of the message's record; hosts and field decide its overhead.
int64_t record_size(const Message *message, Text topic_field);

// Writes the record at ``to``.
void put_record(uint8_t *to, const Message *message, Text topic_field, const Spot *spot);

void put_unit(uint8_t *to, int64_t log_offset, int32_t size, int64_t tags_code);

// Cuts the next message off a batch: flag, body and properties. 0 at its end; -1 if it does not fit.
int next_of_batch(Text *batch, Message *message);

// --- headers.c

enum { TEXT, NUMBER, TRUE, FALSE, NOTHING };
typedef struct { int kind, has_escapes; Text text, spelled; int64_t number; } Scalar;  // of JSON; spelled has the quotes, too

// The code with which a JSON header begins; -1 if it does not.
int begun_code(Text header);

#define PULL_HEADER_MAX 2048
typedef struct { int64_t opaque, queue_offset, commit_offset; } Pull;

// Writes the header without the values of these, of suspendTimeoutMillis and of a signature to ``key``, which has room for
// PULL_HEADER_MAX bytes, and returns how many that were. 0 if it cannot tell where a decoder finds the values.
ptrdiff_t cut_pull(Text header, char *key, Pull *pull);

#define FIELDS_MAX 64

// Sets the values of the ext fields ``keys``, which are texts. 0 if the header has other fields or another order, or if that is
// not certain.
int cut_values(Text header, const Text *keys, ptrdiff_t count, Scalar *values);

// Writes a text without escapes, which is never longer; returns its end.
char *put_value(char *to, const Scalar *value);

int is_spelled(const Scalar *value, Text text);

#define SEND_NAMES 14
#define ANSWER_PIECES 6
#define ONEWAY 2  // of a request's flag

typedef struct {
    Text names[2][SEND_NAMES];  // of SendHeader's fields on the wire: those of code 10, and those of 310 and 320
    Text marks[32];  // names of properties with which a message asks for more than to be stored
    ptrdiff_t mark_count;
} SendRules;
typedef struct {
    int32_t code, opaque, queue_id, sys_flag, flag, reconsume_times;
    int64_t born_ms;
    int is_oneway, is_batch, waits_until_safe;
    Text topic;  // in the header
    Text properties, unique_key;  // in the room; the properties end with a separator
} Send;

// Reads a send that asks only to be stored. 0 if it is none, or if that is not certain. ``room`` is for its properties: the
// header's size and one byte more.
int read_send(const Frame *frame, const SendRules *rules, char *room, Send *send);

typedef struct {
    int32_t opaque, queue_id, codec;
    int64_t queue_offset;
    const int64_t *log_offsets;
    ptrdiff_t count;
    Text host, unique_key;  // the key may lack
} Answer;

// A frame of the pieces of its codec: what stands before the message ids, the queue id, the queue offset, and the unique key
// (left out with it). Then come, in JSON, what stands before the opaque, and behind it; else more ext fields, and the begin of
// the header up to them.
char *put_answer(char *to, const Answer *answer, const Text *pieces);

ptrdiff_t answer_room(const Answer *answer, const Text *pieces);
#endif
