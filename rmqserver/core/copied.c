// What readers need from the plain records of a copied log. log_copy.py does the same for all other records.
#define _GNU_SOURCE  // memmem
#include "bytes.h"

static int has_mark(Text properties, const Rules *rules) {
    for (ptrdiff_t number = 0; number < rules->mark_count; number++) {
        Text mark = rules->marks[number];
        if (memmem(properties.bytes, (size_t)properties.size, mark.bytes, (size_t)mark.size)) return 1;
    }
    return 0;
}

// A topic that can be a directory and needs no decoding.
static int is_plain_topic(Text topic) {
    uint32_t unused = 0;
    if (!topic.size || topic.bytes[0] == '.' || extend_hash(&unused, topic)) return 0;
    return !memchr(topic.bytes, '/', (size_t)topic.size) && !memchr(topic.bytes, 0, (size_t)topic.size);
}

static int is_plain(const Record *record, const Rules *rules, int64_t log_offset) {
    if (record->magic != MAGIC_V1 || record->sys_flag & (BORN_HOST_V6 | STORE_HOST_V6)) return 0;
    if (record->log_offset != log_offset || record->properties_size != record->properties.size) return 0;
    if (is_same(record->topic, rules->odd_topic)) return 0;
    if (record->queue_offset < 0 || record->queue_offset == INT64_MAX) return 0;  // damaged; 0 always begins a run
    return !has_mark(record->properties, rules) && (crc32_of(record->body) & 0x7FFFFFFF) == record->crc;
}

// The run that the record's unit continues, or a new one. NULL if there is no room, or the topic is not plain.
static Run *run_of(Found *found, const Record *record) {
    Text topic = record->topic;
    uint32_t hash = 17 * (uint32_t)record->queue_id + (uint32_t)topic.size;
    for (ptrdiff_t at = 0; at < topic.size; at++) hash = 31 * hash + (uint8_t)topic.bytes[at];
    hash ^= hash >> 15;
    for (uint32_t slot = hash % RUN_SLOTS;; slot = (slot + 1) % RUN_SLOTS) {
        Run *run = found->slots[slot] ? &found->runs[found->slots[slot] - 1] : NULL;
        if (run) {
            if (run->queue_id != record->queue_id || !is_same(run->topic, topic)) continue;
            if (run->next == record->queue_offset || run->next == run->first) return run;
        }
        uint32_t prefix_hash = 0;
        if (found->run_count == RUNS_MAX || !is_plain_topic(topic)) return NULL;
        extend_hash(&prefix_hash, topic);
        extend_hash(&prefix_hash, (Text){"#", 1});
        run = &found->runs[found->run_count++];
        *run = (Run){topic, record->queue_id, prefix_hash, record->queue_offset, record->queue_offset};
        found->slots[slot] = (int16_t)found->run_count;
        return run;
    }
}

// Adds what the record's fate says. 0 if the record is not plain.
static int add_record(Found *found, const Record *record, int is_queued, int is_indexed) {
    if (!is_queued && !is_indexed) return is_plain_topic(record->topic);
    Keys keys = keys_of(record->properties);
    uint32_t code = 0;
    if (extend_hash(&code, keys.tags)) return 0;
    Run *run = run_of(found, record);
    if (!run) return 0;
    found->records[found->count++] = (Copied){
        .log_offset = record->log_offset,
        .store_ms = record->store_ms,
        .tags_code = (int32_t)code,
        .keys = keys,
        .prefix_hash = run->prefix_hash,
        .size = record->size,
        .run = is_queued ? (int32_t)(run - found->runs) : -1,
        .is_indexed = is_indexed,
    };
    if (is_queued) {
        if (run->next == run->first) run->first = run->next = record->queue_offset;
        run->next++;
    }
    return 1;
}

ptrdiff_t take_plain(Text data, int64_t base, const Rules *rules, Found *found) {
    ptrdiff_t at = 0;
    found->last = -1;
    for (Record record; read_record(data.bytes + at, data.size - at, &record); at += record.size) {
        if (!is_plain(&record, rules, base + at)) break;
        int fate = rules->fates[record.sys_flag & 0xFF];
        if (!add_record(found, &record, fate & rules->queued, fate & rules->indexed)) break;
        found->last = record.log_offset;
        found->store_ms = record.store_ms;
    }
    return at;
}
