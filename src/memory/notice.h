/* SPDX-License-Identifier: Apache-2.0
 *
 * Notices: calls of the user's functions that were requested with kiln_pending_notify. They are
 * added while locks are held, and sent when no lock is held.
 */
#pragma once

/* A function of the user's that must be called once. The structure is allocated with malloc. */
typedef struct kilni_notice {
    struct kilni_notice *next;
    void (*call)(void *user);
    void *user;
} kilni_notice;

/* Adds a notice to those that must be sent, takes ownership of it, and sets *@notice to NULL. Does
 * nothing if *@notice is NULL. May be called with any cache's lock held. */
void kilni_notice_add(kilni_notice **notice);

/* Sends all notices, whichever thread added them. Called with no lock held. */
void kilni_notices_send(void);

/* The fork handlers call these before and after a fork. */
void kilni_notices_lock(void);
void kilni_notices_unlock(void);
