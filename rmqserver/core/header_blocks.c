// The native HeaderDecoder: header blocks of HTTP/2 (HPACK, RFC 7541), and calls that come whole. It has the contract of
// header_blocks.py.
#include "glue.h"

#define TABLE_SIZE 4096
#define LIST_SIZE_MAX (32 << 10)
#define ENTRY_SIZE 32  // what a header counts beside its name and value
#define ENTRIES_MAX (TABLE_SIZE / ENTRY_SIZE)  // a power of two
#define STATIC_MAX 61
#define FRAME_HEAD 9  // length u24 | type u8 | flags u8 | stream u32
#define FRAME_MAX 16384
#define SYMBOLS 257
#define CODE_MAX 30  // bits

typedef struct {
    PyObject_HEAD
    PyObject *entries[ENTRIES_MAX];  // a ring of pairs
    int newest, count;
    ptrdiff_t size, size_max;
} HeaderDecoder;

typedef struct { const uint8_t *at, *end; } Block;

static PyObject *protocol_error, *static_entries;  // the latter of header_blocks.py, with one more before them

static uint16_t symbols[SYMBOLS];  // in the order of their codes
static uint32_t first_code[CODE_MAX + 1], code_count[CODE_MAX + 1];  // by size
static int first_symbol[CODE_MAX + 1];

// Takes the length of each byte's Huffman code, and of the end's, in bits. -1 with an exception.
static int prepare_codes(PyObject *sizes) {
    uint32_t code = 0;
    int place = 0;
    if (!PyBytes_Check(sizes) || PyBytes_GET_SIZE(sizes) != SYMBOLS) {
        PyErr_Format(PyExc_TypeError, "%d sizes of codes are wanted", SYMBOLS);
        return -1;
    }
    for (int size = 1; size <= CODE_MAX; size++) {
        code <<= 1;
        first_code[size] = code;
        first_symbol[size] = place;
        for (int symbol = 0; symbol < SYMBOLS; symbol++)
            if (PyBytes_AS_STRING(sizes)[symbol] == size) symbols[place++] = (uint16_t)symbol;
        code_count[size] = (uint32_t)(place - first_symbol[size]);
        code += code_count[size];
    }
    return 0;
}

static PyObject *pair_of(PyObject *name, PyObject *value) {  // takes both
    PyObject *pair = name && value ? PyTuple_Pack(2, name, value) : NULL;
    Py_XDECREF(name);
    Py_XDECREF(value);
    return pair;
}

static PyObject *bytes_of(const void *at, ptrdiff_t size) { return PyBytes_FromStringAndSize(at, size); }

static void *refuse(const char *text) {
    PyErr_SetString(protocol_error, text);
    return NULL;
}

static void *refuse_end(void) {
    return refuse("a header block ends too early, or names an entry that is not there");
}

// --- the table

static ptrdiff_t size_of(PyObject *pair) {
    return PyBytes_GET_SIZE(PyTuple_GET_ITEM(pair, 0)) + PyBytes_GET_SIZE(PyTuple_GET_ITEM(pair, 1)) + ENTRY_SIZE;
}

static void shrink_to(HeaderDecoder *self, ptrdiff_t size_max) {
    while (self->count && self->size > size_max) {
        PyObject **oldest = &self->entries[(self->newest + self->count - 1) % ENTRIES_MAX];
        self->size -= size_of(*oldest);
        self->count--;
        Py_CLEAR(*oldest);
    }
}

static void remember(HeaderDecoder *self, PyObject *pair) {
    ptrdiff_t size = size_of(pair);
    shrink_to(self, self->size_max - size);  // one that is too large leaves the table empty
    if (size > self->size_max) return;
    self->newest = (self->newest + ENTRIES_MAX - 1) % ENTRIES_MAX;
    self->entries[self->newest] = Py_NewRef(pair);
    self->count++;
    self->size += size;
}

// Borrowed; NULL with an exception.
static PyObject *entry_at(HeaderDecoder *self, uint32_t index) {
    if (index && index <= STATIC_MAX) return PyTuple_GET_ITEM(static_entries, index);
    if (!index || index - STATIC_MAX > (uint32_t)self->count) return refuse_end();
    return self->entries[((uint32_t)self->newest + index - STATIC_MAX - 1) % ENTRIES_MAX];
}

// --- what a block is made of

// -1 with an exception.
static int take_integer(Block *block, uint32_t mask, uint32_t *value) {
    if (block->at == block->end) return refuse_end(), -1;
    *value = *block->at++ & mask;
    if (*value < mask) return 0;
    for (int shift = 0; shift < 28; shift += 7) {
        if (block->at == block->end) return refuse_end(), -1;
        uint8_t byte = *block->at++;
        *value += (uint32_t)(byte & 0x7F) << shift;
        if (byte < 0x80) return 0;
    }
    return refuse("a number in a header block is too long"), -1;
}

static PyObject *unpacked(const uint8_t *at, ptrdiff_t size) {
    PyObject *text = bytes_of(NULL, size * 8 / 5);  // no code is shorter than 5 bits
    if (!text) return NULL;
    uint8_t *to = (uint8_t *)PyBytes_AS_STRING(text);
    const uint8_t *begin = to, *end = at + size;
    uint64_t bits = 0;  // the next ones are the highest; padding goes on for ever
    int held = 0;
    for (ptrdiff_t left = 8 * size;;) {
        for (; held <= 56; held += 8) bits |= (uint64_t)(at < end ? *at++ : 0xFF) << (56 - held);
        int length = 5;
        uint32_t code = (uint32_t)(bits >> 59);
        while (length < CODE_MAX && code - first_code[length] >= code_count[length]) code = (uint32_t)(bits >> (63 - length++));
        if (length > left) {
            if (left < 8 && (!left || bits >> (64 - left) == (1u << left) - 1)) break;
            Py_DECREF(text);
            return refuse("a header ends amid a Huffman code");
        }
        uint16_t symbol = symbols[first_symbol[length] + (int)(code - first_code[length])];
        if (symbol > 255) {
            Py_DECREF(text);
            return refuse("a header is no Huffman code");
        }
        *to++ = (uint8_t)symbol;
        bits <<= length;
        held -= length;
        left -= length;
    }
    _PyBytes_Resize(&text, to - begin);
    return text;
}

static PyObject *take_text(Block *block) {
    uint32_t size;
    int is_packed = block->at < block->end && *block->at & 0x80;
    if (take_integer(block, 0x7F, &size)) return NULL;
    if ((ptrdiff_t)size > block->end - block->at) return refuse_end();
    const uint8_t *at = block->at;
    block->at += size;
    return is_packed ? unpacked(at, size) : bytes_of(at, size);
}

// A new pair.
static PyObject *take_header(HeaderDecoder *self, Block *block) {
    uint8_t byte = *block->at;
    uint32_t index;
    if (take_integer(block, byte & 0x80 ? 0x7F : byte & 0x40 ? 0x3F : 0x0F, &index)) return NULL;
    PyObject *entry = index || byte & 0x80 ? entry_at(self, index) : NULL;
    if (!entry && PyErr_Occurred()) return NULL;
    if (byte & 0x80) return Py_NewRef(entry);
    PyObject *name = entry ? Py_NewRef(PyTuple_GET_ITEM(entry, 0)) : take_text(block);
    PyObject *pair = pair_of(name, name ? take_text(block) : NULL);
    if (pair && byte & 0x40) remember(self, pair);
    return pair;
}

static PyObject *decode(HeaderDecoder *self, const char *bytes, ptrdiff_t size) {
    Block block = {(const uint8_t *)bytes, (const uint8_t *)bytes + size};
    ptrdiff_t list_size = 0;
    PyObject *found = PyList_New(0);
    while (found && block.at < block.end) {
        if ((*block.at & 0xE0) == 0x20) {
            uint32_t size_max;
            if (take_integer(&block, 0x1F, &size_max)) {
                Py_CLEAR(found);
            } else if (PyList_GET_SIZE(found) || size_max > TABLE_SIZE) {
                Py_CLEAR(found);
                refuse("a header table cannot have this size, or not here");
            } else {
                self->size_max = size_max;
                shrink_to(self, size_max);
            }
            continue;
        }
        PyObject *pair = take_header(self, &block);
        if (pair && (list_size += size_of(pair)) > LIST_SIZE_MAX) {
            Py_CLEAR(pair);
            PyErr_Format(protocol_error, "headers of more than %d bytes are not taken", LIST_SIZE_MAX);
        }
        if (!pair || PyList_Append(found, pair)) Py_CLEAR(found);
        Py_XDECREF(pair);
    }
    return found;
}

// --- methods

static PyObject *decode_untrusted(HeaderDecoder *self, PyObject *block) {
    if (!PyBytes_Check(block)) return PyErr_Format(PyExc_TypeError, "bytes are wanted");
    return decode(self, PyBytes_AS_STRING(block), PyBytes_GET_SIZE(block));
}

// The payload of the frame at the start of ``data``, if it is whole and has this kind and these flags.
static Text payload_of(Text data, uint8_t kind, uint8_t flags) {
    Text none = {NULL, 0};
    if (data.size < FRAME_HEAD || (uint8_t)data.bytes[3] != kind || (uint8_t)data.bytes[4] != flags) return none;
    ptrdiff_t size = u32_at(data.bytes) >> 8;
    if (size > FRAME_MAX || size > data.size - FRAME_HEAD) return none;
    return (Text){data.bytes + FRAME_HEAD, size};
}

static PyObject *take_call_untrusted(HeaderDecoder *self, PyObject *args) {
    PyObject *given;
    Py_ssize_t at;
    unsigned int last_stream;
    if (!PyArg_ParseTuple(args, "SnI", &given, &at, &last_stream)) return NULL;
    Text data = text_of(given);
    if (at < 0 || at > data.size) return PyErr_Format(PyExc_ValueError, "a place in the data is wanted");
    data = (Text){data.bytes + at, data.size - at};
    Text block = payload_of(data, 1, 4);  // HEADERS with END_HEADERS
    if (!block.bytes) Py_RETURN_NONE;
    Text behind = {block.bytes + block.size, data.size - FRAME_HEAD - block.size};
    Text body = payload_of(behind, 0, 1);  // DATA with END_STREAM
    uint32_t stream = u32_at(data.bytes + 5) & 0x7FFFFFFF;
    if (!body.bytes || (u32_at(behind.bytes + 5) & 0x7FFFFFFF) != stream || !(stream & 1) || stream <= last_stream)
        Py_RETURN_NONE;
    PyObject *headers = decode(self, block.bytes, block.size);
    if (!headers) return NULL;
    return Py_BuildValue("INy#n", stream, headers, body.bytes, body.size, at + (body.bytes + body.size - data.bytes));
}

static PyObject *make(PyTypeObject *type, PyObject *args, PyObject *names) {
    if (PyTuple_GET_SIZE(args) || (names && PyDict_GET_SIZE(names)))
        return PyErr_Format(PyExc_TypeError, "HeaderDecoder takes no arguments");
    HeaderDecoder *self = (HeaderDecoder *)type->tp_alloc(type, 0);
    if (self) self->size_max = TABLE_SIZE;
    return (PyObject *)self;
}

static void dealloc(HeaderDecoder *self) {  // it holds only tuples of bytes, which make no cycle
    shrink_to(self, -1);
    Py_TYPE(self)->tp_free(self);
}

static PyMethodDef methods[] = {
    {"decode_untrusted", (PyCFunction)decode_untrusted, METH_O, NULL},
    {"take_call_untrusted", (PyCFunction)take_call_untrusted, METH_VARARGS, NULL},
    {NULL, NULL, 0, NULL},
};

static PyTypeObject HeaderDecoderType = {OF_TYPE(HeaderDecoder), .tp_flags = Py_TPFLAGS_DEFAULT};

int add_header_decoder(PyObject *module) {
    static const char twin[] = "rmqserver.core.header_blocks";
    PyObject *sizes = imported(twin, "CODE_SIZES");
    if (sizes) protocol_error = imported(twin, "ProtocolError");
    if (protocol_error) static_entries = imported(twin, "STATIC_HEADERS");
    int failed = !static_entries || prepare_codes(sizes);
    Py_XDECREF(sizes);
    if (!failed && (!PyTuple_Check(static_entries) || PyTuple_GET_SIZE(static_entries) != STATIC_MAX + 1)) {
        PyErr_Format(PyExc_TypeError, "%d static headers are wanted", STATIC_MAX);
        failed = 1;
    }
    return failed ? -1 : PyModule_AddType(module, &HeaderDecoderType);
}
