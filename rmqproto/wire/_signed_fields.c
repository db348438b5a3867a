// Cuts the signed fields of a JSON header and its signature out without a decoder. signed_fields.py does the same in Python
// if this is not built, and for headers that this rejects. tests/rmqproto/wire/test_signed_fields.py compares the two.
#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <stdint.h>
#include <string.h>

#define FIELDS_MAX 64
#define BODY_MAX_BYTES (64 << 10)  // a larger body is not copied
#define EXT "\"extFields\":"

static uint8_t is_plain[256];  // bytes that need no escape

typedef struct { const char *at, *end; Py_ssize_t size; } Value;  // its spelling, and its size without escapes

static int hex(char c) {
    if (c >= '0' && c <= '9') return c - '0';
    c |= 0x20;
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

// The ASCII character of the escape at ``at``, whose backslash is before ``end``; -1 for any other. Sets ``spelled`` to the
// length of the escape.
static int escaped(const char *at, const char *end, Py_ssize_t *spelled) {
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
    Py_ssize_t saved = 0, spelled;
    value->at = at;
    for (;; at += spelled, saved += spelled - 1) {
        while (is_plain[(uint8_t)*at]) at++;  // a bytes object ends with a zero
        if (at >= end) return 0;
        if (*at == '"') break;
        if (*at != '\\' || escaped(at, end, &spelled) < 0) return 0;
    }
    value->end = at;
    value->size = at - value->at - saved;
    return 1;
}

static char *put(char *to, const Value *value) {
    if (value->end - value->at == value->size) {
        memcpy(to, value->at, value->size);
        return to + value->size;
    }
    for (const char *at = value->at;;) {
        while (is_plain[(uint8_t)*at]) *to++ = *at++;
        if (at == value->end) return to;
        Py_ssize_t spelled;
        *to++ = (char)escaped(at, value->end, &spelled);
        at += spelled;
    }
}

// Sets the values of the ext fields ``keys``. 0 if the header has other fields or another order, or if that is not
// certain.
static int cut_values(const char *at, const char *end, PyObject *keys, Value *values) {
    // The second brace of the header: no earlier member is an object or contains this name in its text.
    const Py_ssize_t ext_size = sizeof EXT - 1;
    const char *brace = end > at ? memchr(at + 1, '{', end - at - 1) : NULL;
    if (!brace || *at != '{' || brace - at <= ext_size || memcmp(brace - ext_size, EXT, ext_size)) return 0;
    at = brace + 1;
    for (Py_ssize_t number = 0; number < PyTuple_GET_SIZE(keys); number++) {
        PyObject *key = PyTuple_GET_ITEM(keys, number);
        Py_ssize_t size = PyBytes_GET_SIZE(key);
        if (number && *at++ != ',') return 0;  // a bytes object ends with a zero
        if (end - at < size || memcmp(at, PyBytes_AS_STRING(key), size)) return 0;
        if (!take(at + size, end, &values[number])) return 0;
        at = values[number].end + 1;
    }
    // If there were two objects of that name, the last one would count.
    return *at == '}' && !memchr(at, '{', end - at);
}

static int is_spelled(const Value *value, PyObject *text) {
    Py_ssize_t size = PyBytes_GET_SIZE(text);
    return value->end - value->at == size && value->size == size && !memcmp(value->at, PyBytes_AS_STRING(text), size);
}

static int are_usable(PyObject *keys, PyObject *order, PyObject *known, Py_ssize_t access_key_at) {
    Py_ssize_t count = PyTuple_GET_SIZE(keys);
    if (!count || count > FIELDS_MAX || PyBytes_GET_SIZE(order) != count || PyTuple_GET_SIZE(known) != count) return 0;
    for (Py_ssize_t number = 0; number < count; number++) {
        PyObject *text = PyTuple_GET_ITEM(known, number);
        if (!PyBytes_Check(PyTuple_GET_ITEM(keys, number)) || !(PyBytes_Check(text) || Py_IsNone(text))) return 0;
        if ((uint8_t)PyBytes_AS_STRING(order)[number] >= count) return 0;
    }
    return access_key_at >= 0 && access_key_at < count && PyBytes_Check(PyTuple_GET_ITEM(known, access_key_at));
}

PyDoc_STRVAR(cut_doc,
"cut(keys, order, known, access_key_at, header, body) -> tuple[bytes, bytes, bool] | None\n\n"
"The signed ext fields of ``header`` followed by the body, the signature, and whether all ``known`` values are unchanged.\n"
"None if the fields are not exactly those of ``keys`` in their order, if not all is ASCII, if the value at\n"
"``access_key_at`` is not the known one, if the body is larger than BODY_MAX_BYTES, and for some headers with unusual\n"
"spelling. ``header`` is JSON that is known to decode to an object with an object ``extFields``.\n\n"
"A key is written as in the header, with the quote of its value: b'\"topic\":\"'. ``known`` has the values by the places\n"
"of their keys, None for any value. ``order`` has the places in the order of signing, one byte each, the signature's\n"
"last.");

static PyObject *cut(PyObject *module, PyObject *const *given, Py_ssize_t given_count) {
    if (given_count != 6 || !PyTuple_Check(given[0]) || !PyBytes_Check(given[1]) || !PyTuple_Check(given[2]) ||
        !PyLong_Check(given[3]) || !PyBytes_Check(given[4]) || !PyBytes_Check(given[5])) {
        PyErr_SetString(PyExc_TypeError, "a tuple, bytes, a tuple, an int, bytes and bytes are wanted");
        return NULL;
    }
    PyObject *keys = given[0], *known = given[2], *body = given[5];
    Py_ssize_t access_key_at = PyLong_AsSsize_t(given[3]), count = PyTuple_GET_SIZE(keys);
    if (access_key_at == -1 && PyErr_Occurred()) return NULL;
    if (!are_usable(keys, given[1], known, access_key_at)) {
        PyErr_SetString(PyExc_ValueError, "keys, order, known values and place do not fit each other");
        return NULL;
    }
    Value values[FIELDS_MAX];
    const char *header = PyBytes_AS_STRING(given[4]);
    const uint8_t *order = (const uint8_t *)PyBytes_AS_STRING(given[1]);
    if (PyBytes_GET_SIZE(body) > BODY_MAX_BYTES) Py_RETURN_NONE;
    if (!cut_values(header, header + PyBytes_GET_SIZE(given[4]), keys, values)) Py_RETURN_NONE;
    if (!is_spelled(&values[access_key_at], PyTuple_GET_ITEM(known, access_key_at))) Py_RETURN_NONE;

    int is_as_it_was = 1;
    Py_ssize_t size = PyBytes_GET_SIZE(body);
    for (Py_ssize_t number = 0; number < count; number++) {
        PyObject *text = PyTuple_GET_ITEM(known, number);
        if (!Py_IsNone(text) && !is_spelled(&values[number], text)) is_as_it_was = 0;
    }
    for (Py_ssize_t number = 0; number < count - 1; number++) size += values[order[number]].size;
    const Value *signature = &values[order[count - 1]];
    PyObject *content = PyBytes_FromStringAndSize(NULL, size), *proof = PyBytes_FromStringAndSize(NULL, signature->size);
    PyObject *found = content && proof ? PyTuple_New(3) : NULL;
    if (!found) {
        Py_XDECREF(content);
        Py_XDECREF(proof);
        return NULL;
    }
    char *to = PyBytes_AS_STRING(content);
    for (Py_ssize_t number = 0; number < count - 1; number++) to = put(to, &values[order[number]]);
    memcpy(to, PyBytes_AS_STRING(body), PyBytes_GET_SIZE(body));
    put(PyBytes_AS_STRING(proof), signature);
    PyTuple_SET_ITEM(found, 0, content);
    PyTuple_SET_ITEM(found, 1, proof);
    PyTuple_SET_ITEM(found, 2, PyBool_FromLong(is_as_it_was));
    return found;
}

static PyMethodDef methods[] = {{"cut", (PyCFunction)(void (*)(void))cut, METH_FASTCALL, cut_doc}, {NULL}};
static struct PyModuleDef definition = {PyModuleDef_HEAD_INIT, .m_name = "_signed_fields", .m_size = 0, .m_methods = methods};
PyMODINIT_FUNC PyInit__signed_fields(void) {
    for (int c = 0x20; c < 0x7f; c++) is_plain[c] = c != '"' && c != '\\';
    PyObject *module = PyModule_Create(&definition);
    if (module && (PyModule_AddIntMacro(module, FIELDS_MAX) || PyModule_AddIntMacro(module, BODY_MAX_BYTES))) Py_CLEAR(module);
    return module;
}
