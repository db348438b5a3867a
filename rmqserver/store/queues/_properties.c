// Finds the records in one piece of the log that a filter accepts, by the values of named properties. second_stage.py does
// the same in Python if this is not built; tests/rmqserver/store/queues/test_second_stage.py keeps them equal.
#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <stdint.h>
#include <string.h>

#define NAMES_MAX 32
#define RECORD_SIZE_MIN 91
#define MAGIC_V1 0xDAA320A7u
#define UNIT_SIZE 20  // of a consume queue: log offset i64 | record size i32 | tags code i64

// A record with IPv4 hosts: 0 size i32 | 4 magic i32 | 36 sysFlag i32 | 84 body length i32 | 88 body, then the topic
// with its length (u8, or u16 with another magic), the properties with theirs (u16). An IPv6 host takes 12 more bytes.
#define SYS_FLAG_AT 36
#define BODY_AT 88
#define BORN_HOST_V6 0x10
#define STORE_HOST_V6 0x20
#define HOST_V6_MORE 12

typedef struct { const char *bytes; Py_ssize_t size; } Text;  // bytes is NULL if there is none
typedef struct { Text all[NAMES_MAX]; Py_ssize_t count; } Texts;

static uint32_t u32_at(const char *at) {
    const uint8_t *bytes = (const uint8_t *)at;
    return (uint32_t)bytes[0] << 24 | (uint32_t)bytes[1] << 16 | (uint32_t)bytes[2] << 8 | bytes[3];
}

static int64_t i64_at(const char *at) { return (int64_t)((uint64_t)u32_at(at) << 32 | u32_at(at + 4)); }

// Where a record's properties begin; they end with the record. -1 if its lengths do not fit.
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

// The last of several values counts; an empty value counts as none. ``names`` end with the separator, 0x01.
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

static int take_names(PyObject *given, Texts *names) {
    names->count = PyTuple_GET_SIZE(given);
    if (names->count > NAMES_MAX) { PyErr_SetString(PyExc_ValueError, "too many names"); return -1; }
    for (Py_ssize_t number = 0; number < names->count; number++) {
        Text *name = &names->all[number];
        if (PyBytes_AsStringAndSize(PyTuple_GET_ITEM(given, number), (char **)&name->bytes, &name->size)) return -1;
    }
    return 0;
}

// 1 if the filter accepts the record; -1 with an exception.
static int is_wanted(const char *record, Py_ssize_t size, const Texts *names, PyObject *accepts) {
    Text values[NAMES_MAX];
    PyObject *objects[NAMES_MAX], *answer = NULL;
    Py_ssize_t properties = properties_at(record, size), made = 0;
    if (properties < 0) return 0;
    find(record + properties, record + size, names, values);
    for (; made < names->count; made++) {
        const Text *value = &values[made];
        objects[made] = value->bytes ? PyBytes_FromStringAndSize(value->bytes, value->size) : Py_NewRef(Py_None);
        if (!objects[made]) break;
    }
    if (made == names->count) answer = PyObject_Vectorcall(accepts, objects, made, NULL);
    while (made) Py_DECREF(objects[--made]);
    if (!answer) return -1;
    int is_true = PyObject_IsTrue(answer);
    Py_DECREF(answer);
    return is_true;
}

// Whether the records of all units lie in the data, in order, and none is too small.
static int lie_in(const char *unit, const char *units_end, int64_t base, Py_ssize_t data_size) {
    for (int64_t at = 0; unit < units_end; unit += UNIT_SIZE) {
        int64_t log_offset = i64_at(unit), size = (int32_t)u32_at(unit + 8);
        if (log_offset < base || log_offset - base < at || log_offset - base > data_size) return 0;
        at = log_offset - base + size;
        if (size < RECORD_SIZE_MIN || at > data_size) return 0;
    }
    return 1;
}

PyDoc_STRVAR(take_wanted_doc,
"take_wanted(data, units, base, names, accepts, records, count_max) -> int\n\n"
"Checks the records of ``units`` in ``data``, the log from ``base`` on, and adds those that ``accepts`` takes to\n"
"``records``, until there are ``count_max``. ``accepts`` gets the values of a record's properties with these names, as bytes\n"
"or None; each name ends with 0x01, and there are NAMES_MAX at most. A damaged record is not taken. Returns how many it\n"
"checked; 0, with nothing added, if the records are not in order in ``data``, or too small to be records.");

static PyObject *take_wanted(PyObject *module, PyObject *args) {
    const char *data, *units;
    Py_ssize_t data_size, units_size, count_max;
    long long base;
    PyObject *data_given, *units_given, *given, *accepts, *records;
    Texts names;
    if (!PyArg_ParseTuple(args, "SSLO!OO!n", &data_given, &units_given, &base, &PyTuple_Type, &given, &accepts,
                          &PyList_Type, &records, &count_max)) return NULL;
    data = PyBytes_AS_STRING(data_given), data_size = PyBytes_GET_SIZE(data_given);
    units = PyBytes_AS_STRING(units_given), units_size = PyBytes_GET_SIZE(units_given);
    if (take_names(given, &names)) return NULL;
    if (base < 0 || units_size % UNIT_SIZE) { PyErr_SetString(PyExc_ValueError, "no base, or no whole units"); return NULL; }
    if (!lie_in(units, units + units_size, base, data_size)) return PyLong_FromLong(0);
    Py_ssize_t seen = 0;
    for (; seen < units_size / UNIT_SIZE && PyList_GET_SIZE(records) < count_max; seen++) {
        const char *unit = units + seen * UNIT_SIZE, *record = data + (i64_at(unit) - base);
        Py_ssize_t size = u32_at(unit + 8);
        int wanted = is_wanted(record, size, &names, accepts);
        if (wanted < 0) return NULL;
        if (!wanted) continue;
        PyObject *taken = PyBytes_FromStringAndSize(record, size);
        if (!taken || PyList_Append(records, taken)) { Py_XDECREF(taken); return NULL; }
        Py_DECREF(taken);
    }
    return PyLong_FromSsize_t(seen);
}

static PyMethodDef methods[] = {{"take_wanted", take_wanted, METH_VARARGS, take_wanted_doc}, {NULL}};
static struct PyModuleDef definition = {PyModuleDef_HEAD_INIT, .m_name = "_properties", .m_size = 0, .m_methods = methods};
PyMODINIT_FUNC PyInit__properties(void) {
    PyObject *module = PyModule_Create(&definition);
    if (module && PyModule_AddIntMacro(module, NAMES_MAX)) Py_CLEAR(module);
    return module;
}
