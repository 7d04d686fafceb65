/* SPDX-License-Identifier: Apache-2.0
 *
 * Certificates for tests: certificates of authorities, and certificates that an authority signs.
 * The openssl tool makes them in a scratch directory.
 */
#pragma once

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

/* Ends the test program as skipped if the tool is missing. */
static inline void certificates_require(void)
{
    if (access("/usr/bin/openssl", X_OK) != 0) {
        printf("no openssl: scripts/install-deps --fleet installs it\n");
        exit(77);
    }
}

/* Makes the authority NAME.pem, and its key NAME.key. */
static inline bool certificates_make_authority(const char *folder, const char *name)
{
    char command[2048];
    snprintf(command, sizeof command,
             "cd '%s' && openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes "
             "-days 2 -subj '/CN=%s' -keyout %s.key -out %s.pem 2>/dev/null",
             folder, name, name, name);
    return system(command) == 0; /* NOLINT */
}

/* Makes the certificate NAME.pem, and its key NAME.key, signed by an authority.
 *
 * @names  the certificate's hosts, in the form "DNS:localhost,IP:127.0.0.1" */
static inline bool certificates_make(const char *folder, const char *authority, const char *name,
                                     const char *names)
{
    char command[2048];
    snprintf(command, sizeof command,
             "cd '%s' && openssl req -new -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes "
             "-subj '/CN=%s' -keyout %s.key -out %s.csr 2>/dev/null && "
             "printf 'subjectAltName=%s\\n' >%s.ext && "
             "openssl x509 -req -in %s.csr -CA %s.pem -CAkey %s.key -CAcreateserial -days 2 "
             "-extfile %s.ext -out %s.pem 2>/dev/null",
             folder, name, name, name, names, name, name, authority, authority, name, name);
    return system(command) == 0; /* NOLINT */
}
