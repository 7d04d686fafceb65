/* SPDX-License-Identifier: Apache-2.0
 *
 * Notices. A notice is a call of a user's function that was requested with kiln_pending_notify.
 * Notices are added while locks are held, and sent when no lock is held.
 */
#pragma once

/* A user's function that must be called once. The structure is allocated with malloc. */
typedef struct kilni_notice {
    struct kilni_notice *next;
    void (*call)(void *user);
    void *user;
} kilni_notice;

/* Takes ownership of *@notice, adds it to the notices that must be sent, and sets *@notice to NULL.
 * Does nothing if *@notice is NULL. The caller may hold the lock of any cache. */
void kilni_notice_add(kilni_notice **notice);

/* Sends all notices, including those that other threads added. Called with no lock held. */
void kilni_notices_send(void);

/* The fork handlers call these before and after a fork. */
void kilni_notices_lock(void);
void kilni_notices_unlock(void);
