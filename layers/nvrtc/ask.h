/* SPDX-License-Identifier: Apache-2.0
 *
 * Asks the process that looks after folders of caches (tools/kiln/folder). KILN_FOLDERS_ASK has the
 * path of its socket, and then the beginnings of the names of libraries, separated by ':'. With the
 * item "bye", processes that have not asked announce their end, too.
 */
#pragma once

/* Receives the program's environment, before the program's objects are loaded. If the place of the
 * folders does not belong to the user of this process, removes the variables that name them: a
 * program that was started by root and has become a different user could not use them. */
void ask_prepare(char **environment);

/* If the library is named in the variable, waits until the folders of its caches are filled. */
void ask_for_library(const char *path);

/* Announces that the process ends in an orderly way, if it has asked for a folder. */
void ask_say_bye(void);
