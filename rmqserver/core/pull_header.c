// The JSON header of a pull: what is the same in each pull of a kind, and the numbers and the signature, which are not.
#include "bytes.h"

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
