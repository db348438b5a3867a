// JSON headers whose fields are cut out without a decoder: those of a pull, and signed ones with their signature.
#include "bytes.h"

// --- a pull: what is the same in each pull of a kind, and the numbers and the signature, which are not ----------------

enum { OPAQUE, QUEUE_OFFSET, COMMIT_OFFSET, SUSPEND_MILLIS, SIGNATURE, NAMES };
#define NAMED(text) {text, sizeof(text) - 1}
static const Text names[NAMES] = {
    [OPAQUE] = NAMED("opaque"), [QUEUE_OFFSET] = NAMED("queueOffset"), [COMMIT_OFFSET] = NAMED("commitOffset"),
    [SUSPEND_MILLIS] = NAMED("suspendTimeoutMillis"), [SIGNATURE] = NAMED("Signature"),
};

// NAMES if it is none of them.
static int which_name(Text text) {
    int which = 0;
    while (which < NAMES && !is_same(text, names[which])) which++;
    return which;
}

ptrdiff_t cut_pull(Text header, char *key, Pull *pull) {
    const char *at = header.bytes, *end = at + header.size;
    int64_t numbers[NAMES] = {0};
    char *to = key;
    int depth = 0, objects = 0, seen = 0;
    if (header.size > PULL_HEADER_MAX) return 0;
    while (at < end) {
        if (*at != '"') {
            depth += (*at == '{') - (*at == '}');
            objects += *at == '{';
            *to++ = *at++;
            continue;
        }
        const char *closing = memchr(at + 1, '"', (size_t)(end - at - 1));
        if (!closing || memchr(at + 1, '\\', (size_t)(closing - at - 1))) return 0;
        int which = which_name((Text){at + 1, closing - at - 1});
        while (at <= closing) *to++ = *at++;
        if (which == NAMES || (at < end && (*at == ',' || *at == '}'))) continue;
        if (at == end || *at != ':') return 0;
        // Named twice, or in another object, it would not be what a decoder finds.
        if (seen >> which & 1 || depth != (which == OPAQUE ? 1 : 2)) return 0;
        seen |= 1 << which;
        *to++ = *at++;
        int is_quoted = at < end && *at == '"';
        if (which == SIGNATURE) {
            const char *last = is_quoted ? memchr(at + 1, '"', (size_t)(end - at - 1)) : NULL;
            if (!last || memchr(at, '\\', (size_t)(last - at))) return 0;
            at = last + 1;
            continue;
        }
        at = read_digits(at + is_quoted, end, &numbers[which]);
        if (!at || at == end) return 0;
        if (is_quoted ? *at != '"' : *at != ',' && *at != '}') return 0;
        at += is_quoted;
        *to++ = is_quoted ? '"' : '0';
    }
    if (!(seen >> OPAQUE & 1) || !(seen >> QUEUE_OFFSET & 1) || objects != 2 || depth) return 0;
    *pull = (Pull){numbers[OPAQUE], numbers[QUEUE_OFFSET], numbers[COMMIT_OFFSET]};
    return pull->opaque > INT32_MAX ? 0 : to - key;
}

// --- signed fields ----------------------------------------------------------------------------------------------------

#define EXT "\"extFields\":"

// Sets the value that begins at ``at`` and ends before a quote. 0 if there is none, or if it is not all ASCII.
static int take(const char *at, const char *end, Value *value) {
    ptrdiff_t saved = 0;
    int spelled;
    value->at = at;
    for (;; at += spelled, saved += spelled - 1) {
        while (is_verbatim[(uint8_t)*at]) at++;  // ends at the zero behind the header
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
