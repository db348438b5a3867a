// HMAC-SHA1 (RFC 2104, RFC 3174) of a request's ext fields and body, with the processor's own instructions for SHA. What
// hashlib takes four copies of its contexts for is one call. signing.py does the same by hashlib where this is not built
// or the processor has no such instructions; tests/rmqproto/test_signing.py holds them equal.
#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <stdint.h>
#include <string.h>
#ifndef __x86_64__
#error "written for x86-64"
#endif
#include <cpuid.h>
#include <immintrin.h>

#define BLOCK_SIZE 64
#define WORDS 5
#define DIGEST_SIZE 20
#define BASE64_SIZE 28
#define SHA_BIT (1u << 29)  // of EBX, leaf 7

typedef struct { uint32_t inner[WORDS], outer[WORDS]; } States;  // each after the block that depends on the key alone

typedef struct {
    uint32_t words[WORDS];
    uint8_t rest[BLOCK_SIZE];
    size_t rest_size;  // always less than a block
    uint64_t size;     // of everything, the rest included
} Hash;

#define ROUNDS(first, kind)                                                        \
    for (int at = first; at < first + 5; at++) {                                   \
        __m128i added = at ? _mm_sha1nexte_epu32(before, w[at]) : _mm_add_epi32(e, w[0]); \
        before = abcd;                                                             \
        abcd = _mm_sha1rnds4_epu32(abcd, added, kind);                             \
    }

// Whole blocks. ``w[at]`` are the words of the four rounds from 4 * at on, the first of them in the highest place.
__attribute__((target("sha,sse4.1"))) static void take_blocks(uint32_t *words, const uint8_t *data, size_t count) {
    const __m128i to_words = _mm_set_epi64x(0x0001020304050607, 0x08090a0b0c0d0e0f);
    __m128i abcd = _mm_shuffle_epi32(_mm_loadu_si128((const __m128i *)words), 0x1b), e = _mm_set_epi32(words[4], 0, 0, 0);
    for (; count; count--, data += BLOCK_SIZE) {
        __m128i w[20], abcd_before = abcd, before = e;
        for (int at = 0; at < 4; at++)
            w[at] = _mm_shuffle_epi8(_mm_loadu_si128((const __m128i *)data + at), to_words);
        for (int at = 4; at < 20; at++)
            w[at] = _mm_sha1msg2_epu32(_mm_xor_si128(_mm_sha1msg1_epu32(w[at - 4], w[at - 3]), w[at - 2]), w[at - 1]);
        ROUNDS(0, 0) ROUNDS(5, 1) ROUNDS(10, 2) ROUNDS(15, 3)
        e = _mm_sha1nexte_epu32(before, e);
        abcd = _mm_add_epi32(abcd, abcd_before);
    }
    _mm_storeu_si128((__m128i *)words, _mm_shuffle_epi32(abcd, 0x1b));
    words[4] = _mm_extract_epi32(e, 3);
}

// What comes behind the key's block.
static void begin(Hash *hash, const uint32_t *words) {
    memcpy(hash->words, words, sizeof hash->words);
    hash->rest_size = 0, hash->size = BLOCK_SIZE;
}

static void take(Hash *hash, const void *given, size_t size) {
    const uint8_t *data = given;
    if (!size) return;
    hash->size += size;
    if (hash->rest_size) {
        size_t part = BLOCK_SIZE - hash->rest_size < size ? BLOCK_SIZE - hash->rest_size : size;
        memcpy(hash->rest + hash->rest_size, data, part);
        hash->rest_size += part, data += part, size -= part;
        if (hash->rest_size < BLOCK_SIZE) return;
        take_blocks(hash->words, hash->rest, 1);
    }
    take_blocks(hash->words, data, size / BLOCK_SIZE);
    hash->rest_size = size % BLOCK_SIZE;
    memcpy(hash->rest, data + size - hash->rest_size, hash->rest_size);
}

// Padding: 0x80, zeros, and the size in bits (u64, big-endian) at the end of a block.
static void finish(Hash *hash, uint8_t *digest) {
    uint8_t end[2 * BLOCK_SIZE] = {0};
    size_t count = hash->rest_size + 9 > BLOCK_SIZE ? 2 : 1;
    uint64_t bits = __builtin_bswap64(hash->size * 8);
    memcpy(end, hash->rest, hash->rest_size);
    end[hash->rest_size] = 0x80;
    memcpy(end + count * BLOCK_SIZE - sizeof bits, &bits, sizeof bits);
    take_blocks(hash->words, end, count);
    for (int at = 0; at < WORDS; at++) {
        uint32_t word = __builtin_bswap32(hash->words[at]);
        memcpy(digest + 4 * at, &word, sizeof word);
    }
}

static void to_base64(const uint8_t *digest, char *text) {
    static const char letters[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    uint8_t padded[DIGEST_SIZE + 1] = {0};
    memcpy(padded, digest, DIGEST_SIZE);
    for (int at = 0; at < BASE64_SIZE / 4; at++) {
        uint32_t bits = (uint32_t)padded[3 * at] << 16 | padded[3 * at + 1] << 8 | padded[3 * at + 2];
        for (int letter = 0; letter < 4; letter++) text[4 * at + letter] = letters[bits >> (18 - 6 * letter) & 63];
    }
    text[BASE64_SIZE - 1] = '=';
}

PyDoc_STRVAR(states_doc,
"states(key) -> bytes\n\n"
"What a signature of this key begins with, for ``signature``. ``key`` is filled up with zeros to the 64 bytes of a block.");

static PyObject *states(PyObject *module, PyObject *key) {
    static const uint32_t start[WORDS] = {0x67452301, 0xefcdab89, 0x98badcfe, 0x10325476, 0xc3d2e1f0};
    States made;
    if (!PyBytes_Check(key) || PyBytes_GET_SIZE(key) != BLOCK_SIZE) {
        PyErr_SetString(PyExc_ValueError, "a key of 64 bytes is needed");
        return NULL;
    }
    uint8_t inner[BLOCK_SIZE], outer[BLOCK_SIZE];
    for (int at = 0; at < BLOCK_SIZE; at++) {
        uint8_t byte = (uint8_t)PyBytes_AS_STRING(key)[at];
        inner[at] = byte ^ 0x36, outer[at] = byte ^ 0x5c;
    }
    memcpy(made.inner, start, sizeof start), memcpy(made.outer, start, sizeof start);
    take_blocks(made.inner, inner, 1), take_blocks(made.outer, outer, 1);
    return PyBytes_FromStringAndSize((const char *)&made, sizeof made);
}

PyDoc_STRVAR(signature_doc,
"signature(states, values, body) -> bytes\n\n"
"Base64 of the HMAC-SHA1 of all ``values``, a tuple of str, but the last, and the body behind them. UnicodeEncodeError for\n"
"half a pair of surrogates.");

static PyObject *signature(PyObject *module, PyObject *const *args, Py_ssize_t count) {
    if (count != 3 || !PyBytes_Check(args[0]) || PyBytes_GET_SIZE(args[0]) != sizeof(States) || !PyTuple_Check(args[1])) {
        PyErr_SetString(PyExc_TypeError, "states, a tuple of values, and a body are needed");
        return NULL;
    }
    States from;
    Hash hash;
    uint8_t digest[DIGEST_SIZE];
    char text[BASE64_SIZE];
    memcpy(&from, PyBytes_AS_STRING(args[0]), sizeof from);
    begin(&hash, from.inner);
    for (Py_ssize_t at = 0; at + 1 < PyTuple_GET_SIZE(args[1]); at++) {
        Py_ssize_t size;
        const char *value = PyUnicode_AsUTF8AndSize(PyTuple_GET_ITEM(args[1], at), &size);
        if (!value) return NULL;
        take(&hash, value, size);
    }
    Py_buffer body;
    if (PyObject_GetBuffer(args[2], &body, PyBUF_SIMPLE)) return NULL;
    take(&hash, body.buf, body.len);
    PyBuffer_Release(&body);
    finish(&hash, digest);
    begin(&hash, from.outer);
    take(&hash, digest, sizeof digest);
    finish(&hash, digest);
    to_base64(digest, text);
    return PyBytes_FromStringAndSize(text, sizeof text);
}

static PyMethodDef methods[] = {
    {"states", states, METH_O, states_doc},
    {"signature", (PyCFunction)(void (*)(void))signature, METH_FASTCALL, signature_doc},
    {NULL},
};
static struct PyModuleDef definition = {PyModuleDef_HEAD_INIT, .m_name = "_hmac_sha1", .m_size = 0, .m_methods = methods};
PyMODINIT_FUNC PyInit__hmac_sha1(void) {
    unsigned a, b, c, d;
    if (!__get_cpuid_count(7, 0, &a, &b, &c, &d) || !(b & SHA_BIT)) {
        PyErr_SetString(PyExc_ImportError, "this processor has no instructions for SHA");
        return NULL;
    }
    return PyModule_Create(&definition);
}
