/* SPDX-License-Identifier: Apache-2.0 */
#include "markup.h"

#include <string.h>

#include "escape.h"
#include "memory.h"

void markup_text(FILE *file, const char *text)
{
    owned char *visible = escaped(text, strlen(text));
    for (const char *at = visible; *at != '\0'; at++) {
        switch (*at) {
        case '&':
            fputs("&amp;", file);
            break;
        case '<':
            fputs("&lt;", file);
            break;
        case '>':
            fputs("&gt;", file);
            break;
        case '"':
            fputs("&quot;", file);
            break;
        case '\'':
            fputs("&#39;", file);
            break;
        default:
            fputc(*at, file);
        }
    }
}
