// Cuts the signed fields of a JSON header and its signature out without a decoder.
#include "bytes.h"

#define EXT "\"extFields\":"

static uint8_t is_plain[256];  // bytes that need no escape

void prepare_values(void) {
    for (int c = 0x20; c < 0x7f; c++) is_plain[c] = c != '"' && c != '\\';
}

// Sets the value that begins at ``at`` and ends before a quote. 0 if there is none, or if it is not all ASCII.
static int take(const char *at, const char *end, Value *value) {
    ptrdiff_t saved = 0;
    int spelled;
    value->at = at;
    for (;; at += spelled, saved += spelled - 1) {
        while (is_plain[(uint8_t)*at]) at++;  // ends at the zero behind the header
        if (at >= end) return 0;
        if (*at == '"') break;
        uint32_t c = *at == '\\' ? escaped(at, end, &spelled) : 0;
        if (!c || c >= 0x80) return 0;
    }
    value->end = at;
    value->size = at - value->at - saved;
    return 1;
}

char *put_value(char *to, const Value *value) {
    Text spelled = {value->at, value->end - value->at};
    return spelled.size == value->size ? put_text(to, spelled) : put_unescaped(to, spelled);
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
