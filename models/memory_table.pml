/* SPDX-License-Identifier: Apache-2.0
 *
 * A table whose cells are replaced while a reader searches it without a lock (src/memory/table.h).
 * The owner of the table copies slots to the new cells, one at a time, and between two copies it
 * may remove a slot and insert one. The cells are replaced twice in a row.
 *
 * Sections are assumed to work as memory_reclaim.pml checks: replaced cells are not freed until
 * every section that was entered before the replacement has been left.
 *
 * Checked: a reader finds a slot that stays in the table, and one that was inserted before the
 * reader began. It does not find a slot that was removed before it began. It does not read cells
 * that were freed.
 *
 * Mutants: LATE_FORMER ONE_REMOVAL EARLY_END
 */

#define GROWTHS 2

/* The slots. */
#define STAYS 0
#define GOES 1
#define COMES 2
#define SLOTS 3

#define NONE 255

bool has[9]; /* whether cells contain a slot, at index cells * SLOTS + slot */
byte cells;  /* kilni_table.cells */
byte former[3];
bool is_freed[3];
bool has_gone, has_come;
byte sections;

/* ---- the owner ---- */

/* kilni_table_remove */
inline remove() {
    has[cells * SLOTS + GOES] = false;
#ifndef ONE_REMOVAL
    if
    :: former[cells] != NONE -> has[former[cells] * SLOTS + GOES] = false
    :: else
    fi;
#endif
    has_gone = true
}

/* kilni_table_insert */
inline insert() {
    has[cells * SLOTS + COMES] = true;
    has_come = true
}

inline change() {
    if
    :: !has_gone -> remove()
    :: !has_come -> insert()
    :: skip
    fi
}

proctype freer(byte replaced) {
    sections == 0 -> is_freed[replaced] = true
}

proctype owner() {
    byte slot, next;
    do
    :: next < GROWTHS ->
        next++;
        change();
        /* clear_some */
        former[next] = next - 1;
        cells = next;
        /* copy_some */
        slot = 0;
        do
        :: slot < SLOTS ->
            change();
#ifdef EARLY_END
            former[next] = NONE;
#endif
            if
            :: has[(next - 1) * SLOTS + slot] -> has[next * SLOTS + slot] = true
            :: else
            fi;
            slot++
        :: else -> break
        od;
        former[next] = NONE;
        run freer(next - 1)
    :: else -> break
    od
}

/* ---- readers ---- */

/* kilni_table_find, within a section */
proctype reader() {
    byte wanted, seen, other;
    bool is_found, was_gone, had_come;
    if
    :: wanted = STAYS
    :: wanted = GOES
    :: wanted = COMES
    fi;
    atomic {
        sections++;
        was_gone = has_gone;
        had_come = has_come
    }
    seen = cells;
#ifndef LATE_FORMER
    other = former[seen];
#endif
    assert(!is_freed[seen]);
    is_found = has[seen * SLOTS + wanted];
#ifdef LATE_FORMER
    other = former[seen];
#endif
    if
    :: !is_found && other != NONE ->
        assert(!is_freed[other]);
        is_found = has[other * SLOTS + wanted]
    :: else
    fi;
    assert(wanted != STAYS || is_found);
    assert(wanted != GOES || !was_gone || !is_found);
    assert(wanted != COMES || !had_come || is_found);
    sections--
}

init {
    atomic {
        has[STAYS] = true;
        has[GOES] = true;
        former[0] = NONE;
        former[1] = NONE;
        former[2] = NONE;
        run owner();
        run reader()
    }
}
