// Cuts the signed fields of a JSON header and its signature out without a decoder.
#include "bytes.h"

#define EXT "\"extFields\":"

static uint8_t is_plain[256];  // bytes that need no escape

void prepare_values(void) {
    for (int c = 0x20; c < 0x7f; c++) is_plain[c] = c != '"' && c != '\\';
}

static int hex(char c) {
    if (c >= '0' && c <= '9') return c - '0';
    c |= 0x20;
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

// The ASCII character of the escape at ``at``, whose backslash is before ``end``; -1 for any other. Sets ``spelled`` to the
// length of the escape.
static int escaped(const char *at, const char *end, ptrdiff_t *spelled) {
    static const char names[] = "\"\\/bfnrt", meant[] = "\"\\/\b\f\n\r\t";
    if (end - at < 2) return -1;
    *spelled = 2;
    if (at[1] == 'u') {
        if (end - at < 6 || at[2] != '0' || at[3] != '0') return -1;
        int high = hex(at[4]), low = hex(at[5]);
        *spelled = 6;
        return high < 0 || high > 7 || low < 0 ? -1 : high << 4 | low;
    }
    const char *found = at[1] ? strchr(names, at[1]) : NULL;
    return found ? meant[found - names] : -1;
}

// Sets the value that begins at ``at`` and ends before a quote. 0 if there is none, or if it is not all ASCII.
static int take(const char *at, const char *end, Value *value) {
    ptrdiff_t saved = 0, spelled = 0;
    value->at = at;
    for (;; at += spelled, saved += spelled - 1) {
        while (is_plain[(uint8_t)*at]) at++;  // ends at the zero behind the header
        if (at >= end) return 0;
        if (*at == '"') break;
        if (*at != '\\' || escaped(at, end, &spelled) < 0) return 0;
    }
    value->end = at;
    value->size = at - value->at - saved;
    return 1;
}

char *put_value(char *to, const Value *value) {
    if (value->end - value->at == value->size) {
        memcpy(to, value->at, (size_t)value->size);
        return to + value->size;
    }
    for (const char *at = value->at;;) {
        while (is_plain[(uint8_t)*at]) *to++ = *at++;
        if (at == value->end) return to;
        ptrdiff_t spelled = 0;
        *to++ = (char)escaped(at, value->end, &spelled);
        at += spelled;
    }
}

int cut_values(Text header, const Text *keys, ptrdiff_t count, Value *values) {
    // The second brace of the header: no earlier member is an object or contains this name in its text.
    const ptrdiff_t ext_size = sizeof EXT - 1;
    const char *at = header.bytes, *end = at + header.size;
    const char *brace = header.size > 0 ? memchr(at + 1, '{', (size_t)(header.size - 1)) : NULL;
    if (!brace || *at != '{' || brace - at <= ext_size || memcmp(brace - ext_size, EXT, (size_t)ext_size)) return 0;
    at = brace + 1;
    for (ptrdiff_t number = 0; number < count; number++) {
        Text key = keys[number];
        if (number && *at++ != ',') return 0;
        if (end - at < key.size || memcmp(at, key.bytes, (size_t)key.size)) return 0;
        if (!take(at + key.size, end, &values[number])) return 0;
        at = values[number].end + 1;
    }
    // If there were two objects of that name, the last one would count.
    return *at == '}' && !memchr(at, '{', (size_t)(end - at));
}

int is_spelled(const Value *value, Text text) {
    ptrdiff_t spelled = value->end - value->at;
    return spelled == value->size && is_same((Text){value->at, spelled}, text);
}
