// Writes new records and the units of their queues. records.c says how a record is laid out.
#include "bytes.h"

#define ITEM_BODY_AT 20  // of a batch: size i32 | magic i32 | CRC i32 | flag i32 | body length i32 | body, then properties as a record

int64_t record_size(const Message *message, Text topic_field) {
    return RECORD_SIZE_MIN - 1 - 2 * HOST_V4_SIZE + message->born_host.size + message->store_host.size + topic_field.size +
           message->body.size + message->properties.size + message->added.size;
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
    to = put_big_endian(to, (uint32_t)(message->properties.size + message->added.size), 2);
    put_bytes(put_bytes(to, message->properties), message->added);
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
