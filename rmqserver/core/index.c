// Hashes the keys of messages and chains their entries.
#include "bytes.h"

#define INDEX_UNIT_SIZE 20  // key hash i32 | log offset i64 | seconds since the file's begin i32 | previous unit i32
#define SLOTS_PER_PAGE_SHIFT 10

Keys keys_of(Text properties) {
    static const Text names[] = {{"UNIQ_KEY\x01", 9}, {"KEYS\x01", 5}, {"TAGS\x01", 5}};
    Text values[3];
    find_values(properties, names, 3, values);
    return (Keys){values[0], values[1], values[2]};
}

ptrdiff_t entry_count_max(const Keys *keys) { return 2 + (keys->keys.size + 1) / 2; }

int extend_any_hash(uint32_t *hash, Text text, OddHash odd_hash) {
    return extend_hash(hash, text) ? odd_hash(hash, text) : 0;
}

ptrdiff_t put_entries(Entry *to, uint32_t prefix_hash, const Keys *keys, int64_t log_offset, int64_t store_ms,
                      OddHash odd_hash) {
    Entry *first = to, entry = {prefix_hash, OF_KEY, log_offset, store_ms};
    Text rest = keys->keys;
    for (Text key = keys->unique_key;;) {
        if (key.size) {
            *to = entry;
            if (extend_any_hash(&to->key_hash, key, odd_hash)) return -1;
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
        if (extend_any_hash(&to->key_hash, keys->tags, odd_hash)) return -1;
        to++;
    } else if (to == first) {
        *to++ = (Entry){0, OF_NO_KEY, log_offset, store_ms};
    }
    for (Entry *each = first; each < to; each++) each->key_hash = absolute(each->key_hash);
    return to - first;
}

ptrdiff_t fitting(const Entry *entries, ptrdiff_t count, ptrdiff_t room, int is_empty, ptrdiff_t *unit_count) {
    ptrdiff_t units = 0, start = 0, units_before = 0;  // of the message that is looked at
    for (ptrdiff_t at = 0; at < count; at++) {
        if (at && entries[at].log_offset != entries[start].log_offset) {
            start = at;
            units_before = units;
        }
        if (entries[at].kind == OF_NO_KEY) continue;
        if (units++ < room) continue;
        *unit_count = units_before;
        if (units_before || !is_empty) return start;
        *unit_count = room;
        while (at < count && (entries[at].kind == OF_NO_KEY || entries[at].log_offset == entries[start].log_offset)) at++;
        return at;
    }
    *unit_count = units;
    return count;
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

uint32_t slot_pages(uint32_t slot_count) { return slot_count ? ((slot_count - 1) >> SLOTS_PER_PAGE_SHIFT) + 1 : 0; }
