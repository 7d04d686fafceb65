/* SPDX-License-Identifier: Apache-2.0 */
#include <kiln/status.h>

const char *kiln_status_name(kiln_status status)
{
    switch (status) {
#define STATUS_NAME(name, value, text)                                                             \
    case value:                                                                                    \
        return #name;
        KILN_STATUS_LIST(STATUS_NAME)
#undef STATUS_NAME
    default:
        return "KILN_E_UNKNOWN";
    }
}

const char *kiln_status_text(kiln_status status)
{
    switch (status) {
#define STATUS_TEXT(name, value, text)                                                             \
    case value:                                                                                    \
        return text;
        KILN_STATUS_LIST(STATUS_TEXT)
#undef STATUS_TEXT
    default:
        return "a status that this version does not know";
    }
}
