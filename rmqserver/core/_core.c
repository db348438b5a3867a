// The glue layer: takes Python's objects apart, calls the byte layer, and makes objects of what it found. simple.py says
// what each function does. None releases the GIL; none keeps a pointer into an object behind its return, or uses one that it
// fetched before a call of Python.
#include "glue.h"

#define NAMES_MAX 32
#define BODY_MAX_BYTES (64 << 10)  // of a signed request: a larger one is not copied

// --- where records start ---------------------------------------------------------------------------------------------

static PyObject *record_starts(PyObject *Py_UNUSED(module), PyObject *args) {
    Py_buffer data;
    Py_ssize_t stop, end = 0, count = 0;
    if (!PyArg_ParseTuple(args, "y*n", &data, &stop)) return NULL;
    PyObject *packed = PyBytes_FromStringAndSize(NULL, (data.len / RECORD_SIZE_MIN) * (Py_ssize_t)sizeof(int64_t));
    if (packed) {
        int64_t *starts = (int64_t *)PyBytes_AS_STRING(packed);  // bytes objects are aligned for it
        while (end < stop && data.len - end >= RECORD_SIZE_MIN) {
            const char *at = (const char *)data.buf + end;
            Py_ssize_t size = (int32_t)u32_at(at);
            uint32_t magic = u32_at(at + 4);
            if (size < RECORD_SIZE_MIN || size > data.len - end || (magic != MAGIC_V1 && magic != MAGIC_V2)) break;
            starts[count++] = end;
            end += size;
        }
        _PyBytes_Resize(&packed, count * (Py_ssize_t)sizeof(int64_t));
    }
    PyBuffer_Release(&data);
    return packed ? Py_BuildValue("Nn", packed, end) : NULL;
}

// --- index entries -----------------------------------------------------------------------------------------------------

static PyObject *index_units(PyObject *Py_UNUSED(module), PyObject *args) {
    PyObject *packed, *units = NULL;
    Py_buffer slots, dirty;
    int number, used = 0;
    unsigned int slot_count;
    long long begin_ms;
    if (!PyArg_ParseTuple(args, "Sw*Iw*iL", &packed, &slots, &slot_count, &dirty, &number, &begin_ms)) return NULL;
    const Entry *entries = (const Entry *)PyBytes_AS_STRING(packed);  // bytes objects are aligned for it
    Py_ssize_t size = PyBytes_GET_SIZE(packed), unit_count = 0;
    for (Py_ssize_t at = 0; at < size / (Py_ssize_t)sizeof(Entry); at++) unit_count += entries[at].kind != OF_NO_KEY;
    if (!slot_count || slots.len / 4 < slot_count || dirty.len <= (slot_count - 1) >> SLOTS_PER_PAGE_SHIFT) {
        PyErr_SetString(PyExc_ValueError, "fewer slots than are said, or fewer dirty bytes than their pages");
    } else if (size % (Py_ssize_t)sizeof(Entry) || number < 1 || unit_count > INT32_MAX - number) {
        PyErr_SetString(PyExc_ValueError, "no whole entries, or numbers that an index file cannot have");
    } else if ((units = PyBytes_FromStringAndSize(NULL, unit_count * UNIT_SIZE))) {
        used = chain_up(entries, unit_count, (uint8_t *)PyBytes_AS_STRING(units), (Slots){slots.buf, dirty.buf, slot_count},
                        number, begin_ms);
    }
    PyBuffer_Release(&slots);
    PyBuffer_Release(&dirty);
    return units ? Py_BuildValue("Ni", units, used) : NULL;
}

// --- a filter's second stage -------------------------------------------------------------------------------------------

typedef struct {
    PyObject *accepts;
    Text names[NAMES_MAX];
    Py_ssize_t name_count;  // -1: it takes the properties
} Filter;

// 1 if the filter accepts the record; -1 with an exception.
static int is_wanted(const Record *record, const Filter *filter) {
    Text values[NAMES_MAX];
    PyObject *objects[NAMES_MAX], *answer = NULL;
    Py_ssize_t count = filter->name_count, made = 0;
    if (count < 0) {
        count = 1;
        values[0] = record->properties;
    } else {
        find_values(record->properties, filter->names, count, values);
    }
    for (; made < count; made++) {
        const Text *value = &values[made];
        objects[made] = value->bytes ? PyBytes_FromStringAndSize(value->bytes, value->size) : Py_NewRef(Py_None);
        if (!objects[made]) break;
    }
    if (made == count) answer = PyObject_Vectorcall(filter->accepts, objects, (size_t)made, NULL);
    while (made) Py_DECREF(objects[--made]);
    if (!answer) return -1;
    int is_true = PyObject_IsTrue(answer);
    Py_DECREF(answer);
    return is_true;
}

// Whether the records of all units lie in the data, in order, and none is too small.
static int lie_in(Text units, int64_t base, Py_ssize_t data_size) {
    int64_t at = 0;
    for (Py_ssize_t place = 0; place < units.size; place += UNIT_SIZE) {
        int64_t log_offset = i64_at(units.bytes + place), size = (int32_t)u32_at(units.bytes + place + 8);
        if (log_offset < base || log_offset - base < at || log_offset - base > data_size) return 0;
        at = log_offset - base + size;
        if (size < RECORD_SIZE_MIN || at > data_size) return 0;
    }
    return 1;
}

// ``by_values`` is None or a pair; a filter of too many names is asked by the properties.
static int read_filter(PyObject *accepts, PyObject *by_values, Filter *filter) {
    *filter = (Filter){.accepts = accepts, .name_count = -1};
    if (Py_IsNone(by_values)) return 0;
    if (!PyTuple_Check(by_values) || PyTuple_GET_SIZE(by_values) != 2 || !PyTuple_Check(PyTuple_GET_ITEM(by_values, 0))) {
        PyErr_SetString(PyExc_TypeError, "a tuple of names and a function, or None, is wanted");
        return -1;
    }
    PyObject *names = PyTuple_GET_ITEM(by_values, 0);
    if (PyTuple_GET_SIZE(names) > NAMES_MAX) return 0;
    filter->accepts = PyTuple_GET_ITEM(by_values, 1);
    filter->name_count = PyTuple_GET_SIZE(names);
    return take_texts(names, filter->names, NAMES_MAX, 0);
}

static PyObject *take_wanted(PyObject *Py_UNUSED(module), PyObject *args) {
    PyObject *given_data, *given_units, *accepts, *by_values, *records;
    Py_ssize_t count_max, seen = 0;
    long long base;
    Filter filter;
    if (!PyArg_ParseTuple(args, "SSLOOO!n", &given_data, &given_units, &base, &accepts, &by_values, &PyList_Type, &records,
                          &count_max)) return NULL;
    if (read_filter(accepts, by_values, &filter)) return NULL;
    Text data = text_of(given_data), units = text_of(given_units);  // both live as long as this call
    if (base < 0 || units.size % UNIT_SIZE) {
        PyErr_SetString(PyExc_ValueError, "no base, or no whole units");
        return NULL;
    }
    if (!lie_in(units, base, data.size)) return PyLong_FromLong(0);
    for (; seen < units.size / UNIT_SIZE && PyList_GET_SIZE(records) < count_max; seen++) {
        const char *unit = units.bytes + seen * UNIT_SIZE, *at = data.bytes + (i64_at(unit) - base);
        Py_ssize_t size = u32_at(unit + 8);
        Record record;
        int wanted = read_record(at, size, &record) && record.size == size ? is_wanted(&record, &filter) : 0;
        if (wanted < 0) return NULL;
        if (!wanted) continue;
        PyObject *taken = PyBytes_FromStringAndSize(at, size);
        int failed = !taken || PyList_Append(records, taken);
        Py_XDECREF(taken);
        if (failed) return NULL;
    }
    return PyLong_FromSsize_t(seen);
}

// --- signed fields -----------------------------------------------------------------------------------------------------

typedef struct {
    Text keys[FIELDS_MAX], known[FIELDS_MAX];
    const uint8_t *order;
    Py_ssize_t count, access_key_at;
} Signed;

// -1 with an exception.
static int read_signed(PyObject *keys, PyObject *order, PyObject *known, Signed *fields) {
    if (take_texts(keys, fields->keys, FIELDS_MAX, 0) || take_texts(known, fields->known, FIELDS_MAX, 1)) return -1;
    const Py_ssize_t count = fields->count = PyTuple_GET_SIZE(keys), at = fields->access_key_at;
    fields->order = (const uint8_t *)PyBytes_AS_STRING(order);
    int fit = count && PyBytes_GET_SIZE(order) == count && PyTuple_GET_SIZE(known) == count && at >= 0 && at < count &&
              fields->known[at].bytes;
    for (Py_ssize_t number = 0; fit && number < count; number++) fit = fields->order[number] < count;
    if (!fit) PyErr_SetString(PyExc_ValueError, "keys, order, known values and place do not fit each other");
    return fit ? 0 : -1;
}

static PyObject *cut_signed(PyObject *Py_UNUSED(module), PyObject *const *given, Py_ssize_t given_count) {
    if (given_count != 6 || !PyBytes_Check(given[1]) || !PyBytes_Check(given[4]) || !PyBytes_Check(given[5]))
        return PyErr_Format(PyExc_TypeError, "a tuple, bytes, a tuple, an int, bytes and bytes are wanted");
    Signed fields;
    fields.access_key_at = PyLong_AsSsize_t(given[3]);
    Scalar values[FIELDS_MAX];
    if ((fields.access_key_at == -1 && PyErr_Occurred()) || read_signed(given[0], given[1], given[2], &fields)) return NULL;
    Text body = text_of(given[5]);
    if (body.size > BODY_MAX_BYTES || !cut_values(text_of(given[4]), fields.keys, fields.count, values) ||
        !is_spelled(&values[fields.access_key_at], fields.known[fields.access_key_at])) Py_RETURN_NONE;

    int is_as_it_was = 1;
    Py_ssize_t size = body.size, last = fields.count - 1;
    for (Py_ssize_t number = 0; number < fields.count; number++) {
        if (fields.known[number].bytes && !is_spelled(&values[number], fields.known[number])) is_as_it_was = 0;
        if (number < last) size += values[fields.order[number]].text.size;
    }
    const Scalar *signature = &values[fields.order[last]];
    PyObject *content = PyBytes_FromStringAndSize(NULL, size), *proof = PyBytes_FromStringAndSize(NULL, signature->text.size);
    if (content && proof) {  // escapes make them shorter
        char *to = PyBytes_AS_STRING(content);
        for (Py_ssize_t number = 0; number < last; number++) to = put_value(to, &values[fields.order[number]]);
        _PyBytes_Resize(&content, put_text(to, body) - PyBytes_AS_STRING(content));
        _PyBytes_Resize(&proof, put_value(PyBytes_AS_STRING(proof), signature) - PyBytes_AS_STRING(proof));
    }
    if (content && proof) return Py_BuildValue("NNO", content, proof, is_as_it_was ? Py_True : Py_False);
    Py_XDECREF(content);
    Py_XDECREF(proof);
    return NULL;
}

// --- the module --------------------------------------------------------------------------------------------------------

static PyMethodDef methods[] = {
    {"plain_records", plain_records, METH_VARARGS, NULL},
    {"record_starts", record_starts, METH_VARARGS, NULL},
    {"index_units", index_units, METH_VARARGS, NULL},
    {"take_wanted", take_wanted, METH_VARARGS, NULL},
    {"serve_ready", serve_ready, METH_VARARGS, NULL},
    {"flush_dirty", flush_dirty, METH_VARARGS, NULL},
    {"cut_send", cut_send, METH_VARARGS, NULL},
    {"cut_ack", cut_ack, METH_O, NULL},
    {"pack_received", pack_received, METH_VARARGS, NULL},
    {"cut_signed", (PyCFunction)(void (*)(void))cut_signed, METH_FASTCALL, NULL},
    {NULL, NULL, 0, NULL},
};
static struct PyModuleDef definition = {PyModuleDef_HEAD_INIT, .m_name = "_core", .m_size = 0, .m_methods = methods};

PyMODINIT_FUNC PyInit__core(void) {
    prepare_crc32();
    PyObject *module = PyModule_Create(&definition);
    if (module && (prepare_glue() || add_frame_cutter(module) || add_plain_pulls(module) || add_round_buffer(module) ||
                   add_plain_sends(module) || add_header_decoder(module) || prepare_turn() ||
                   PyModule_AddIntConstant(module, "CONTRACT", 5))) Py_CLEAR(module);
    return module;
}
