// Hashes the keys of messages and chains their entries.
#include "bytes.h"

#define INDEX_UNIT_SIZE 20  // key hash i32 | log offset i64 | seconds since the file's begin i32 | previous unit i32
#define SLOTS_PER_PAGE_SHIFT 10

static int add(Entries *entries, const Item *item, uint32_t key_hash) {
    if (entries->count == entries->room) return 1;
    entries->all[entries->count++] = (Entry){key_hash, item->log_offset, item->store_ms};
    return 0;
}

static int add_text(Entries *entries, const Item *item, Text text) {
    uint32_t hash = item->prefix_hash;
    return extend_hash(&hash, text) ? -1 : add(entries, item, absolute(hash));
}

int add_entries(Entries *entries, const Item *item) {
    int failed = item->unique_key.size ? add_text(entries, item, item->unique_key) : 0;
    Text keys = item->keys;
    for (ptrdiff_t at = 0; at < keys.size && !failed; at++) {
        ptrdiff_t start = at;
        while (at < keys.size && keys.bytes[at] != ' ') at++;
        if (at > start) failed = add_text(entries, item, (Text){keys.bytes + start, at - start});
    }
    return !failed && item->tag_hash != NO_TAG ? add(entries, item, (uint32_t)item->tag_hash) : failed;
}

static uint32_t seconds_between(int64_t begin_ms, int64_t at_ms) {
    uint64_t seconds = at_ms > begin_ms ? ((uint64_t)at_ms - (uint64_t)begin_ms) / 1000 : 0;
    return seconds > INT32_MAX ? INT32_MAX : (uint32_t)seconds;
}

int32_t chain_up(const Entries *entries, uint8_t *unit, Slots slots, int32_t number, int64_t begin_ms) {
    int32_t used = 0;
    for (ptrdiff_t at = 0; at < entries->count; at++, number++) {
        const Entry *entry = &entries->all[at];
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
    }
    return used;
}

uint32_t slot_pages(uint32_t slot_count) { return slot_count ? ((slot_count - 1) >> SLOTS_PER_PAGE_SHIFT) + 1 : 0; }
