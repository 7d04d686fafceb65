/* SPDX-License-Identifier: Apache-2.0
 *
 * A library with HIPRTC's functions, as later versions of HIP have it, with functions for links and
 * for bitcode. It has no compiler that Kiln could identify.
 */
#include <stddef.h>
#include <string.h>

#define EXPORTED __attribute__((visibility("default")))

enum { SUCCESS = 0, NAME_NOT_VALID = 10 };

static int is_compiled;

EXPORTED int hiprtcVersion(int *major, int *minor);
EXPORTED int hiprtcCreateProgram(void **program, const char *source, const char *name, int count,
                                 const char **headers, const char **names);
EXPORTED int hiprtcDestroyProgram(void **program);
EXPORTED int hiprtcCompileProgram(void *program, int count, const char **options);
EXPORTED int hiprtcAddNameExpression(void *program, const char *expression);
EXPORTED int hiprtcGetLoweredName(void *program, const char *expression, const char **name);
EXPORTED int hiprtcGetProgramLogSize(void *program, size_t *size);
EXPORTED int hiprtcGetProgramLog(void *program, char *log);
EXPORTED int hiprtcGetCodeSize(void *program, size_t *size);
EXPORTED int hiprtcGetCode(void *program, char *code);
EXPORTED int hiprtcGetBitcodeSize(void *program, size_t *size);
EXPORTED int hiprtcGetBitcode(void *program, char *code);
EXPORTED int hiprtcLinkComplete(void *link, void **code, size_t *size);

int hiprtcVersion(int *major, int *minor)
{
    *major = 9;
    *minor = 0;
    return SUCCESS;
}

int hiprtcCreateProgram(void **program, const char *source, const char *name, int count,
                        const char **headers, const char **names)
{
    (void)source, (void)name, (void)count, (void)headers, (void)names;
    *program = &is_compiled;
    return SUCCESS;
}

int hiprtcDestroyProgram(void **program)
{
    *program = NULL;
    return SUCCESS;
}

int hiprtcCompileProgram(void *program, int count, const char **options)
{
    (void)program, (void)count, (void)options;
    is_compiled = 1;
    return SUCCESS;
}

int hiprtcAddNameExpression(void *program, const char *expression)
{
    (void)program, (void)expression;
    return SUCCESS;
}

int hiprtcGetLoweredName(void *program, const char *expression, const char **name)
{
    (void)program, (void)expression, (void)name;
    return NAME_NOT_VALID;
}

static int get_size(size_t *size)
{
    *size = is_compiled ? 4 : 0;
    return SUCCESS;
}

static int get(char *bytes)
{
    memcpy(bytes, "code", is_compiled ? 4 : 0);
    return SUCCESS;
}

int hiprtcGetProgramLogSize(void *program, size_t *size)
{
    (void)program;
    return get_size(size);
}

int hiprtcGetProgramLog(void *program, char *log)
{
    (void)program;
    return get(log);
}

int hiprtcGetCodeSize(void *program, size_t *size)
{
    (void)program;
    return get_size(size);
}

int hiprtcGetCode(void *program, char *code)
{
    (void)program;
    return get(code);
}

int hiprtcGetBitcodeSize(void *program, size_t *size)
{
    (void)program;
    return get_size(size);
}

int hiprtcGetBitcode(void *program, char *code)
{
    (void)program;
    return get(code);
}

int hiprtcLinkComplete(void *link, void **code, size_t *size)
{
    (void)link, (void)code, (void)size;
    return SUCCESS;
}
