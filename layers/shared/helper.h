/* SPDX-License-Identifier: Apache-2.0
 *
 * The helper (`kiln capture`) does work that would keep the application waiting. Layers leave this
 * work in the store as requests. Once the application stops building, the layer starts the helper,
 * which runs at the lowest priority.
 */
#pragma once

/* Called after a request was left. Starts the helper when no build has run for a while, or when the
 * process ends. */
void helper_expect(void);

/* Starts the helper now. Called after a request was left for work that the program will need. */
void helper_start(void);

/* Searches, once per process, for requests of processes that did not start a helper, because they
 * were killed or could not start one. session_requests must have returned something other than
 * NULL. */
void helper_look_for_requests(void);

/* Called before and after each build. */
void helper_build_starts(void);
void helper_build_ends(void);

/* Called when the process ends. Starts the helper if requests wait. */
void helper_process_ends(void);

/* Called in a forked child, which forgets all pending requests. They belong to the parent. */
void helper_forget(void);
