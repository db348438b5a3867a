// Reads stored records and their properties.
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
