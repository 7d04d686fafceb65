/* SPDX-License-Identifier: Apache-2.0
 *
 * Python's headers, with nothing that the limited API of Python 3.9 does not have.
 */
#ifndef KILN_PYTHON_PYTHON_H
#define KILN_PYTHON_PYTHON_H

#define PY_SSIZE_T_CLEAN
#define Py_LIMITED_API 0x03090000
#include <Python.h>

#endif
