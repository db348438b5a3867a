// Values of named properties, found in the records of one piece of the log. second_stage.py does the same in Python where
// this is not built; tests/rmqserver/store/queues/test_second_stage.py holds them equal.
#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <stdint.h>
#include <string.h>

#define NAMES_MAX 32
#define RECORD_SIZE_MIN 91
#define MAGIC_V1 0xDAA320A7u

// Of a record with IPv4 hosts: 0 size i32 | 4 magic i32 | 36 sysFlag i32 | 84 body length i32 | 88 body, then the topic
// with its length (u8, or u16 of another magic), the properties with theirs (u16). An IPv6 host takes 12 bytes more.
#define SYS_FLAG_AT 36
#define BODY_AT 88
#define BORN_HOST_V6 0x10
#define STORE_HOST_V6 0x20
#define HOST_V6_MORE 12

typedef struct { const char *bytes; Py_ssize_t size; } Text;  // bytes is NULL where there is none
typedef struct { Text all[NAMES_MAX]; Py_ssize_t count; } Texts;

static uint32_t u32_at(const char *at) {
    const uint8_t *bytes = (const uint8_t *)at;
    return (uint32_t)bytes[0] << 24 | (uint32_t)bytes[1] << 16 | (uint32_t)bytes[2] << 8 | bytes[3];
}

// Where a record's properties begin; they reach to its end. -1 if its lengths do not fit.
static Py_ssize_t properties_at(const char *record, Py_ssize_t size) {
    if (size < RECORD_SIZE_MIN || (int64_t)u32_at(record) != size) return -1;
    uint32_t sys_flag = u32_at(record + SYS_FLAG_AT);
    Py_ssize_t at = BODY_AT + (sys_flag & BORN_HOST_V6 ? HOST_V6_MORE : 0) + (sys_flag & STORE_HOST_V6 ? HOST_V6_MORE : 0);
    if (at > size) return -1;
    Py_ssize_t body_size = (int32_t)u32_at(record + at - 4), length_size = u32_at(record + 4) == MAGIC_V1 ? 1 : 2;
    if (body_size < 0 || body_size > size - at - length_size) return -1;
    at += body_size + length_size;
    const uint8_t *end = (const uint8_t *)record + at;
    at += (length_size == 1 ? end[-1] : end[-2] << 8 | end[-1]) + 2;
    return at > size ? -1 : at;
}

// Of several values the last one counts, and an empty one is none. ``names`` end with the separator, 0x01.
static void find(const char *at, const char *end, const Texts *names, Text *values) {
    for (Py_ssize_t number = 0; number < names->count; number++) values[number].bytes = NULL;
    while (at < end) {
        const char *stop = memchr(at, 2, end - at);
        if (!stop) stop = end;
        for (Py_ssize_t number = 0; number < names->count; number++) {
            const Text *name = &names->all[number];
            if (stop - at > name->size && !memcmp(at, name->bytes, name->size))
                values[number] = (Text){at + name->size, stop - at - name->size};
        }
        at = stop + 1;
    }
}

static PyObject *tuple_of(const Text *values, Py_ssize_t count) {
    PyObject *tuple = PyTuple_New(count);
    for (Py_ssize_t number = 0; tuple && number < count; number++) {
        const Text *value = &values[number];
        PyObject *item = value->bytes ? PyBytes_FromStringAndSize(value->bytes, value->size) : Py_NewRef(Py_None);
        if (item) PyTuple_SET_ITEM(tuple, number, item); else Py_CLEAR(tuple);
    }
    return tuple;
}

static int take_names(PyObject *given, Texts *names) {
    names->count = PyTuple_GET_SIZE(given);
    if (names->count > NAMES_MAX) { PyErr_SetString(PyExc_ValueError, "too many names"); return -1; }
    for (Py_ssize_t number = 0; number < names->count; number++) {
        Text *name = &names->all[number];
        if (PyBytes_AsStringAndSize(PyTuple_GET_ITEM(given, number), (char **)&name->bytes, &name->size)) return -1;
    }
    return 0;
}

// The values of one record, None for a damaged one, or NULL with an exception.
static PyObject *values_of(const char *data, Py_ssize_t data_size, PyObject *start, PyObject *size_given, const Texts *names) {
    Text values[NAMES_MAX];
    Py_ssize_t at = PyLong_AsSsize_t(start), size = PyLong_AsSsize_t(size_given);
    if (PyErr_Occurred()) return NULL;
    if (at < 0 || size < 0 || at > data_size || size > data_size - at) {
        PyErr_SetString(PyExc_ValueError, "a record that is not in the data");
        return NULL;
    }
    Py_ssize_t properties = properties_at(data + at, size);
    if (properties < 0) Py_RETURN_NONE;
    find(data + at + properties, data + at + size, names, values);
    return tuple_of(values, names->count);
}

PyDoc_STRVAR(record_values_doc,
"record_values(data, starts, sizes, names) -> list\n\n"
"For each record in ``data`` a tuple of the values that its properties have by these names, as bytes or None; for a\n"
"damaged record None. Each name ends with 0x01; there are NAMES_MAX at most.");

static PyObject *record_values(PyObject *module, PyObject *args) {
    PyObject *data, *starts, *sizes, *given, *found;
    Texts names;
    if (!PyArg_ParseTuple(args, "SO!O!O!", &data, &PyList_Type, &starts, &PyTuple_Type, &sizes, &PyTuple_Type, &given))
        return NULL;
    if (take_names(given, &names)) return NULL;
    Py_ssize_t count = PyList_GET_SIZE(starts);
    if (count != PyTuple_GET_SIZE(sizes)) { PyErr_SetString(PyExc_ValueError, "not a size for each start"); return NULL; }
    if (!(found = PyList_New(count))) return NULL;
    for (Py_ssize_t number = 0; number < count; number++) {
        PyObject *values = values_of(PyBytes_AS_STRING(data), PyBytes_GET_SIZE(data), PyList_GET_ITEM(starts, number),
                                     PyTuple_GET_ITEM(sizes, number), &names);
        if (!values) { Py_DECREF(found); return NULL; }
        PyList_SET_ITEM(found, number, values);
    }
    return found;
}

static PyMethodDef methods[] = {{"record_values", record_values, METH_VARARGS, record_values_doc}, {NULL}};
static struct PyModuleDef definition = {PyModuleDef_HEAD_INIT, .m_name = "_properties", .m_size = 0, .m_methods = methods};
PyMODINIT_FUNC PyInit__properties(void) {
    PyObject *module = PyModule_Create(&definition);
    if (module && PyModule_AddIntMacro(module, NAMES_MAX)) Py_CLEAR(module);
    return module;
}
