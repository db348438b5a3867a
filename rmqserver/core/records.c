// Records and what is made of them: reads stored ones and their properties, writes new ones and the units of their queues,
// hashes the keys of messages and chains their entries.
#include "bytes.h"

#define HOST_V6_MORE 12

// 0 size i32 | 4 magic i32 | 8 body CRC i32 | 12 queue id i32 | 20 queue offset i64 | 28 log offset i64 | 36 sysFlag i32
// | 56 store time i64 | 84 body length i32 | 88 body, then the topic with its length (u8; u16 with another magic), the
// properties with theirs (u16). An IPv6 host takes 12 more bytes; the store time is read with IPv4 hosts only.
#define BODY_AT 88

int read_record(const char *at, ptrdiff_t room, Record *record) {
    if (room < RECORD_SIZE_MIN) return 0;
    ptrdiff_t size = (int32_t)u32_at(at);
    if (size < RECORD_SIZE_MIN || size > room) return 0;
    uint32_t magic = u32_at(at + 4), sys_flag = u32_at(at + 36);
    ptrdiff_t length_size = magic == MAGIC_V1 ? 1 : 2;
    ptrdiff_t place = BODY_AT + (sys_flag & BORN_HOST_V6 ? HOST_V6_MORE : 0) + (sys_flag & STORE_HOST_V6 ? HOST_V6_MORE : 0);
    if (place > size) return 0;
    ptrdiff_t body_size = (int32_t)u32_at(at + place - 4);
    if (body_size < 0 || body_size > size - place - length_size) return 0;
    const uint8_t *topic = (const uint8_t *)at + place + body_size + length_size;
    ptrdiff_t topic_size = length_size == 1 ? topic[-1] : topic[-2] << 8 | topic[-1];
    ptrdiff_t rest = size - place - body_size - length_size;
    if (topic_size > rest - 2) return 0;
    const uint8_t *properties = topic + topic_size + 2;
    *record = (Record){
        .size = (int32_t)size,
        .magic = magic,
        .crc = u32_at(at + 8),
        .queue_id = (int32_t)u32_at(at + 12),
        .queue_offset = i64_at(at + 20),
        .log_offset = i64_at(at + 28),
        .sys_flag = sys_flag,
        .store_ms = i64_at(at + 56),
        .body = {at + place, body_size},
        .topic = {(const char *)topic, topic_size},
        .properties = {(const char *)properties, rest - topic_size - 2},
        .properties_size = properties[-2] << 8 | properties[-1],
    };
    return 1;
}

int next_property(Text *rest, Text *name, Text *value) {
    if (!rest->size) return 0;
    const char *at = rest->bytes, *end = at + rest->size, *stop = memchr(at, 2, (size_t)rest->size);
    *rest = stop ? (Text){stop + 1, end - stop - 1} : (Text){end, 0};
    if (!stop) stop = end;
    const char *mid = memchr(at, 1, (size_t)(stop - at));
    if (!mid) return -1;
    *name = (Text){at, mid - at};
    *value = (Text){mid + 1, stop - mid - 1};
    return 1;
}

void find_values(Text properties, const Text *names, ptrdiff_t count, Text *values) {
    for (ptrdiff_t number = 0; number < count; number++) values[number] = (Text){NULL, 0};
    for (const char *at = properties.bytes, *end = at + properties.size; at < end;) {
        const char *stop = memchr(at, 2, (size_t)(end - at));
        if (!stop) stop = end;
        for (ptrdiff_t number = 0; number < count; number++) {
            Text name = names[number];
            // The first character decides nearly always, without a call.
            if (stop - at > name.size && *at == *name.bytes && !memcmp(at, name.bytes, (size_t)name.size))
                values[number] = (Text){at + name.size, stop - at - name.size};
        }
        if (stop == end) return;
        at = stop + 1;
    }
}

// --- new records ------------------------------------------------------------------------------------------------------

#define ITEM_BODY_AT 20  // of a batch: size i32 | magic i32 | CRC i32 | flag i32 | body length i32 | body, then properties as a record

int64_t record_size(const Message *message, Text topic_field) {
    return RECORD_SIZE_MIN - 1 - 2 * HOST_V4_SIZE + message->born_host.size + message->store_host.size + topic_field.size +
           message->body.size + message->properties.size;
}

static inline uint8_t *put_bytes(uint8_t *to, Text text) { return (uint8_t *)put_text((char *)to, text); }

void put_record(uint8_t *to, const Message *message, Text topic_field, const Spot *spot) {
    to = put_big_endian(to, (uint32_t)spot->size, 4);
    to = put_big_endian(to, topic_field.size > TOPIC_V1_SIZE_MAX + 1 ? MAGIC_V2 : MAGIC_V1, 4);
    to = put_big_endian(to, crc32_of(message->body) & 0x7FFFFFFF, 4);
    to = put_big_endian(to, (uint32_t)message->queue_id, 4);
    to = put_big_endian(to, (uint32_t)message->flag, 4);
    to = put_big_endian(to, (uint64_t)spot->queue_offset, 8);
    to = put_big_endian(to, (uint64_t)spot->log_offset, 8);
    to = put_big_endian(to, (uint32_t)with_host_bits(message->sys_flag, message->born_host, message->store_host), 4);
    to = put_big_endian(to, (uint64_t)message->born_ms, 8);
    to = put_bytes(to, message->born_host);
    to = put_big_endian(to, (uint64_t)spot->store_ms, 8);
    to = put_bytes(to, message->store_host);
    to = put_big_endian(to, (uint32_t)message->reconsume_times, 4);
    to = put_big_endian(to, (uint64_t)message->prepared_offset, 8);
    to = put_big_endian(to, (uint32_t)message->body.size, 4);
    to = put_bytes(to, message->body);
    to = put_bytes(to, topic_field);
    to = put_big_endian(to, (uint32_t)message->properties.size, 2);
    put_bytes(to, message->properties);
}

void put_unit(uint8_t *to, int64_t log_offset, int32_t size, int64_t tags_code) {
    to = put_big_endian(to, (uint64_t)log_offset, 8);
    to = put_big_endian(to, (uint32_t)size, 4);
    put_big_endian(to, (uint64_t)tags_code, 8);
}

int next_of_batch(Text *batch, Message *message) {
    const char *at = batch->bytes;
    if (!batch->size) return 0;
    if (batch->size < ITEM_BODY_AT + 2) return -1;
    ptrdiff_t body_size = (int32_t)u32_at(at + 16), rest = batch->size - ITEM_BODY_AT - 2;
    if (body_size < 0 || body_size > rest) return -1;
    const uint8_t *properties = (const uint8_t *)at + ITEM_BODY_AT + body_size + 2;
    ptrdiff_t properties_size = properties[-2] << 8 | properties[-1];
    if (properties_size > rest - body_size) return -1;
    message->flag = (int32_t)u32_at(at + 12);
    message->body = (Text){at + ITEM_BODY_AT, body_size};
    message->properties = (Text){(const char *)properties, properties_size};
    *batch = (Text){message->properties.bytes + properties_size, rest - body_size - properties_size};
    return 1;
}

// --- index entries ----------------------------------------------------------------------------------------------------

#define INDEX_UNIT_SIZE 20  // key hash i32 | log offset i64 | seconds since the file's begin i32 | previous unit i32

Keys keys_of(Text properties) {
    static const Text names[] = {{"UNIQ_KEY\x01", 9}, {"KEYS\x01", 5}, {"TAGS\x01", 5}};
    Text values[3];
    find_values(properties, names, 3, values);
    return (Keys){values[0], values[1], values[2]};
}

ptrdiff_t entry_count_max(const Keys *keys) { return 2 + (keys->keys.size + 1) / 2; }

int extend_any_hash(uint32_t *hash, Text text) { return extend_hash(hash, text) ? odd_hash(hash, text) : 0; }

ptrdiff_t put_entries(Entry *to, uint32_t prefix_hash, const Keys *keys, int64_t log_offset, int64_t store_ms) {
    Entry *first = to, entry = {prefix_hash, OF_KEY, log_offset, store_ms};
    Text rest = keys->keys;
    for (Text key = keys->unique_key;;) {
        if (key.size) {
            *to = entry;
            if (extend_any_hash(&to->key_hash, key)) return -1;
            to++;
        }
        if (!rest.size) break;
        const char *space = memchr(rest.bytes, ' ', (size_t)rest.size);
        key = (Text){rest.bytes, space ? space - rest.bytes : rest.size};
        ptrdiff_t used = key.size + (space != NULL);
        rest = (Text){rest.bytes + used, rest.size - used};
    }
    if (keys->tags.size) {
        *to = entry;
        to->kind = OF_TAG;
        extend_hash(&to->key_hash, (Text){"T#", 2});
        if (extend_any_hash(&to->key_hash, keys->tags)) return -1;
        to++;
    } else if (to == first) {
        *to++ = (Entry){0, OF_NO_KEY, log_offset, store_ms};
    }
    for (Entry *each = first; each < to; each++) each->key_hash = absolute(each->key_hash);
    return to - first;
}

static uint32_t seconds_between(int64_t begin_ms, int64_t at_ms) {
    uint64_t seconds = at_ms > begin_ms ? ((uint64_t)at_ms - (uint64_t)begin_ms) / 1000 : 0;
    return seconds > INT32_MAX ? INT32_MAX : (uint32_t)seconds;
}

int32_t chain_up(const Entry *entry, ptrdiff_t unit_count, uint8_t *unit, Slots slots, int32_t number, int64_t begin_ms) {
    int32_t used = 0;
    for (; unit_count; entry++) {
        if (entry->kind == OF_NO_KEY) continue;
        uint32_t slot = entry->key_hash % slots.slot_count;
        int32_t previous = slots.slots[slot];
        if (previous <= 0 || previous >= number) {
            previous = 0;
            used++;
        }
        unit = put_big_endian(unit, entry->key_hash, 4);
        unit = put_big_endian(unit, (uint64_t)entry->log_offset, 8);
        unit = put_big_endian(unit, seconds_between(begin_ms, entry->store_ms), 4);
        unit = put_big_endian(unit, (uint32_t)previous, 4);
        slots.slots[slot] = number;
        slots.dirty[slot >> SLOTS_PER_PAGE_SHIFT] = 1;
        number++;
        unit_count--;
    }
    return used;
}
