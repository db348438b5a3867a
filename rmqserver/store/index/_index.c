// The index's inner loop in C: hashes the keys of messages and chains their entries. LiveIndexFile.put does the same in
// Python if this is not built or returns None; tests/rmqserver/store/index/test_index.py keeps them equal.
#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <stdint.h>

#define UNIT_SIZE 20
#define SLOTS_PER_PAGE_SHIFT 10
#define NO_TAG (-1)
#define ITEM_PARTS 6

typedef struct { uint32_t key_hash; int32_t seconds; int64_t log_offset; } Entry;
typedef struct { Entry *entries; Py_ssize_t count, room; } Entries;

// Continues Java's String.hashCode with these characters, each one byte. -1 if one is not ASCII.
static int extend_hash(uint32_t *hash, const char *text, Py_ssize_t size) {
    uint32_t value = *hash;
    for (Py_ssize_t at = 0; at < size; at++) {
        if (text[at] & 0x80) return -1;
        value = 31 * value + (uint8_t)text[at];
    }
    *hash = value;
    return 0;
}

// Math.abs of a hash; 0 for the only number that has none.
static uint32_t absolute(uint32_t hash) { return hash < 0x80000000u ? hash : (0u - hash) & 0x7FFFFFFFu; }

static int add(Entries *all, uint32_t key_hash, int64_t log_offset, int32_t seconds) {
    if (all->count == all->room) return -1;
    all->entries[all->count++] = (Entry){key_hash, seconds, log_offset};
    return 0;
}

static int add_text(Entries *all, uint32_t prefix, const char *text, Py_ssize_t size, int64_t log_offset, int32_t seconds) {
    uint32_t hash = prefix;
    if (extend_hash(&hash, text, size)) return -1;
    return add(all, absolute(hash), log_offset, seconds);
}

static int32_t seconds_between(int64_t begin_ms, int64_t at_ms) {
    int64_t seconds = at_ms > begin_ms ? (at_ms - begin_ms) / 1000 : 0;
    return seconds > INT32_MAX ? INT32_MAX : (int32_t)seconds;
}

// Adds the entries of one message: unique key, keys, tag. 1 if Python has to do it, -1 with an exception.
static int add_message(Entries *all, PyObject *item, int64_t begin_ms) {
    if (!PyTuple_Check(item) || PyTuple_GET_SIZE(item) != ITEM_PARTS || !PyBytes_Check(PyTuple_GET_ITEM(item, 3)) ||
        !PyBytes_Check(PyTuple_GET_ITEM(item, 4))) {
        PyErr_SetString(PyExc_TypeError, "an IndexItem is a tuple of three numbers, two bytes objects, and a number");
        return -1;
    }
    // PyArg_ParseTuple reads its format anew for each message.
    uint32_t prefix = (uint32_t)PyLong_AsUnsignedLong(PyTuple_GET_ITEM(item, 0));
    int64_t log_offset = PyLong_AsLongLong(PyTuple_GET_ITEM(item, 1)), at_ms = PyLong_AsLongLong(PyTuple_GET_ITEM(item, 2));
    int64_t tag_hash = PyLong_AsLongLong(PyTuple_GET_ITEM(item, 5));
    if (PyErr_Occurred()) return -1;
    const char *unique_key = PyBytes_AS_STRING(PyTuple_GET_ITEM(item, 3)), *keys = PyBytes_AS_STRING(PyTuple_GET_ITEM(item, 4));
    Py_ssize_t unique_key_size = PyBytes_GET_SIZE(PyTuple_GET_ITEM(item, 3)), keys_size = PyBytes_GET_SIZE(PyTuple_GET_ITEM(item, 4));
    int32_t seconds = seconds_between(begin_ms, at_ms);
    if (unique_key_size && add_text(all, prefix, unique_key, unique_key_size, log_offset, seconds)) return 1;
    for (Py_ssize_t at = 0; at < keys_size;) {
        Py_ssize_t start = at;
        while (at < keys_size && keys[at] != ' ') at++;
        if (at > start && add_text(all, prefix, keys + start, at - start, log_offset, seconds)) return 1;
        at++;
    }
    if (tag_hash != NO_TAG && add(all, (uint32_t)tag_hash, log_offset, seconds)) return 1;
    return 0;
}

static void put_big_endian(uint8_t *to, uint64_t value, int size) {
    for (int at = size - 1; at >= 0; at--, value >>= 8) to[at] = (uint8_t)value;
}

// Writes the units and links each into its slot; returns how many slots were not used before.
static int32_t chain_up(const Entries *all, uint8_t *unit, int32_t *slots, uint32_t slot_count, uint8_t *dirty, int32_t number) {
    int32_t used = 0;
    for (Py_ssize_t at = 0; at < all->count; at++, unit += UNIT_SIZE, number++) {
        const Entry *entry = &all->entries[at];
        uint32_t slot = entry->key_hash % slot_count;
        int32_t previous = slots[slot];
        if (previous <= 0 || previous >= number) { previous = 0; used++; }
        put_big_endian(unit, entry->key_hash, 4);
        put_big_endian(unit + 4, (uint64_t)entry->log_offset, 8);
        put_big_endian(unit + 12, (uint32_t)entry->seconds, 4);
        put_big_endian(unit + 16, (uint32_t)previous, 4);
        slots[slot] = number;
        dirty[slot >> SLOTS_PER_PAGE_SHIFT] = 1;
    }
    return used;
}

static PyObject *put_in(PyObject *items, Entries *all, int32_t *slots, uint32_t slot_count, uint8_t *dirty, int number,
                        long long begin_ms) {
    for (Py_ssize_t at = 0; at < PyList_GET_SIZE(items); at++) {
        int failed = add_message(all, PyList_GET_ITEM(items, at), begin_ms);
        if (failed < 0) return NULL;
        if (failed) Py_RETURN_NONE;
    }
    PyObject *units = PyBytes_FromStringAndSize(NULL, all->count * UNIT_SIZE);
    if (!units) return NULL;
    int32_t used = chain_up(all, (uint8_t *)PyBytes_AS_STRING(units), slots, slot_count, dirty, number);
    return Py_BuildValue("Ni", units, used);
}

PyDoc_STRVAR(index_units_doc,
"index_units(items, slots, slot_count, dirty, number, room, begin_ms) -> (units, used_slots) or None\n\n"
"Chains the entries of a list of IndexItems, the first as unit ``number``. ``slots`` is a writable buffer of native\n"
"i32, ``dirty`` one with a byte for each 1024 slots. None, with nothing changed, if there are more than ``room``\n"
"entries or a key is not ASCII.");

static PyObject *index_units(PyObject *module, PyObject *args) {
    PyObject *items, *result = NULL;
    Py_buffer slots, dirty;
    int number;
    unsigned int slot_count;
    Py_ssize_t room;
    long long begin_ms;
    if (!PyArg_ParseTuple(args, "O!w*Iw*inL", &PyList_Type, &items, &slots, &slot_count, &dirty, &number, &room, &begin_ms))
        return NULL;
    // A message may have a unique key, a tag, and as many keys as fit 32 KiB of properties. Too many entries go through Python.
    Py_ssize_t most = 8 * PyList_GET_SIZE(items) + 1;
    Entries all = {NULL, 0, room < most ? room : most};
    if (!slot_count || slots.len / 4 < slot_count || dirty.len < ((slot_count - 1) >> SLOTS_PER_PAGE_SHIFT) + 1) {
        PyErr_SetString(PyExc_ValueError, "fewer slots than are said, or fewer dirty bytes than their pages");
    } else if (all.room <= 0) {
        result = Py_NewRef(Py_None);
    } else if (!(all.entries = PyMem_Malloc(all.room * sizeof(Entry)))) {
        PyErr_NoMemory();
    } else {
        result = put_in(items, &all, slots.buf, slot_count, dirty.buf, number, begin_ms);
    }
    PyMem_Free(all.entries);
    PyBuffer_Release(&slots);
    PyBuffer_Release(&dirty);
    return result;
}

static PyMethodDef methods[] = {{"index_units", index_units, METH_VARARGS, index_units_doc}, {NULL}};
static struct PyModuleDef definition = {PyModuleDef_HEAD_INIT, .m_name = "_index", .m_size = 0, .m_methods = methods};
PyMODINIT_FUNC PyInit__index(void) { return PyModule_Create(&definition); }
