/* SPDX-License-Identifier: Apache-2.0
 *
 * One name in a store's directory. Writers rename new files over it (publish in
 * src/store/dir/layout_kiln.c), readers read it (kiln_get in the same file), and janitors remove a
 * file that they have ranked (kilni_dir_remove_seen). Two janitors may work at the same time if the
 * file system has no locks; kiln_store_remove, which takes the same steps, may run at any time.
 *
 * Checked: a reader sees a whole file, and the same file from its first byte to its last. A janitor
 * removes exactly the file that it ranked, although inode numbers are reused. In the end the last
 * file that a writer published has the name, or no file has the name and a janitor had ranked that
 * last file.
 *
 * Not modelled: processes that are killed, which loses only what they were working on: a temporary
 * file, or a file that a janitor has set aside. Also not modelled: files with the same inode
 * number, size and time. The model assumes that the clock advances before an inode number is used
 * again.
 *
 * Mutants: IN_PLACE LOOK_ONCE BY_NUMBER LOSE_FRESH PRIVATE_NAMES
 */

#define INODES 6
#define FILES 8 /* 0: none */
#define NONE 0

byte named;             /* the inode that has the name */
bool is_aside_taken;    /* a file has the aside name, which all janitors share */
byte links[INODES];     /* number of an inode's names */
byte opens[INODES];     /* number of its open descriptors */
bool is_whole[INODES];
byte mtime[INODES];
byte file[INODES];      /* which file the inode is; only the checks read it */

byte time;
byte files;
byte published;         /* the last file that got the name from a writer */
bool is_ranked[FILES];
byte ended;

/* O_CREAT | O_EXCL: a free inode number is used again. */
inline create(inode) {
    atomic {
        inode = 1;
        do
        :: links[inode] + opens[inode] > 0 -> inode++
        :: else -> break
        od;
        assert(inode < INODES);
        links[inode] = 1;
        is_whole[inode] = false;
        time++;
        mtime[inode] = time;
        files++;
        file[inode] = files
    }
}

proctype writer() {
    byte mine;
#ifndef IN_PLACE
    create(mine);
    is_whole[mine] = true;
    /* renameat */
    atomic {
        links[named] = links[named] - (named != NONE);
        named = mine;
        published = file[mine]
    }
#else
    /* O_CREAT | O_TRUNC */
    if
    :: atomic { named == NONE -> create(mine); named = mine }
    :: atomic { named != NONE -> mine = named; is_whole[mine] = false }
    fi;
    published = file[mine];
    is_whole[mine] = true;
#endif
    mine = NONE;
    ended++
}

proctype reader() {
    byte opened, seen;
    atomic {
        opened = named;
        opens[opened] = opens[opened] + (opened != NONE)
    }
    if
    :: opened != NONE ->
        seen = file[opened];
        assert(is_whole[opened]);
        assert(is_whole[opened] && file[opened] == seen);
        /* kilni_dir_record_use */
        atomic { time++; mtime[opened] = time };
        atomic { opens[opened]--; opened = NONE; seen = 0 }
    :: else
    fi;
    ended++
}

#ifdef BY_NUMBER
#define IS_SEEN(inode) (inode == seen)
#else
#define IS_SEEN(inode) (inode == seen && mtime[inode] == seen_mtime)
#endif

proctype janitor() {
    byte seen, seen_mtime, seen_file, aside;
    /* the census */
    atomic {
        seen = named;
        seen_mtime = mtime[seen];
        seen_file = file[seen];
        is_ranked[seen_file] = true
    }
    if
    :: seen == NONE -> goto end
    :: else
    fi;
    /* fstatat */
    if
    :: !IS_SEEN(named) -> goto end
    :: else
    fi;
#ifndef LOOK_ONCE
    /* kilni_dir_move_aside: only one janitor at a time has a file aside */
#ifndef PRIVATE_NAMES
    if
    :: atomic { !is_aside_taken && named != NONE ->
           /* renameat2 with RENAME_NOREPLACE */
           is_aside_taken = true; aside = named; named = NONE
       }
    :: atomic { !is_aside_taken -> is_aside_taken = true }; /* an empty file, with O_EXCL */
       atomic { aside = named; named = NONE } /* renameat over it, or unlinkat */
    :: is_aside_taken || named == NONE -> goto end
    fi;
#else
    atomic { aside = named; named = NONE };
#endif
    if
    :: aside == NONE -> is_aside_taken = false; goto end
    :: else
    fi;
    if
    :: IS_SEEN(aside) ->
        atomic { assert(file[aside] == seen_file); links[aside]--; is_aside_taken = false }
    :: else ->
        /* kilni_dir_restore_aside, if the file system has no renames that replace nothing: linkat,
         * then unlinkat of the aside name */
#ifndef LOSE_FRESH
        atomic {
            if
            :: named == NONE -> named = aside; links[aside]++
            :: else
            fi
        };
#endif
        atomic { links[aside]--; is_aside_taken = false }
    fi;
#else
    /* unlinkat of any file that has the name */
    atomic {
        if
        :: named != NONE ->
            assert(file[named] == seen_file);
            links[named]--;
            named = NONE
        :: else
        fi
    };
#endif
end:
    atomic { seen = 0; seen_mtime = 0; seen_file = 0; aside = 0; ended++ }
}

init {
    byte first;
    atomic {
        create(first);
        is_whole[first] = true;
        named = first;
        published = file[first];
        run writer();
        run writer();
        run reader();
        run janitor();
        run janitor()
    }
    ended == 5;
    assert(named != NONE || is_ranked[published]);
    assert(named == NONE || file[named] == published);
    assert(named == NONE || (is_whole[named] && links[named] == 1))
}
