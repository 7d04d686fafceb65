/* SPDX-License-Identifier: Apache-2.0
 *
 * A program with a cache in the folder that MY_CACHE names, for the tests of folders:
 *
 *   cache_user [WHAT]
 *
 * Makes the files that are missing, complete under their names, writes one line, "made N, read N",
 * and ends. A file with a wrong content makes it write "wrong". WHAT is one of: "torn", write half
 * of a file, and end by SIGKILL; "hold", wait for SIGTERM after the files were made; "more", also
 * make a further file.
 */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define FILES 4
#define SIZE 5000

static int made, found;

static void fill(char *content, int number)
{
    for (int i = 0; i < SIZE; i++) {
        content[i] = (char)(i * 7 + number);
    }
}

static void make(const char *path, const char *content, size_t size)
{
    FILE *file = fopen(path, "wb");
    if (!file || fwrite(content, 1, size, file) != size || fclose(file) != 0) {
        perror(path);
        exit(1);
    }
    made++;
}

static void use(const char *folder, int number)
{
    char path[4096], content[SIZE], stored[SIZE + 1];
    snprintf(path, sizeof path, "%s/part-%d", folder, number % 2);
    mkdir(path, 0700);
    snprintf(path, sizeof path, "%s/part-%d/file-%d", folder, number % 2, number);
    fill(content, number);
    FILE *file = fopen(path, "rb");
    if (!file) {
        char temporary[4200];
        snprintf(temporary, sizeof temporary, "%s.%d", path, (int)getpid());
        make(temporary, content, SIZE);
        rename(temporary, path);
        return;
    }
    if (fread(stored, 1, sizeof stored, file) != SIZE || memcmp(content, stored, SIZE) != 0) {
        puts("wrong");
        exit(3);
    }
    fclose(file);
    found++;
}

int main(int argc, char **argv)
{
    const char *folder = getenv("MY_CACHE");
    const char *what = argc > 1 ? argv[1] : "";
    char content[SIZE], path[4096];
    if (!folder) {
        puts("no folder");
        return 2;
    }
    mkdir(folder, 0700);
    for (int i = 0; i < FILES + (strcmp(what, "more") == 0); i++) {
        use(folder, i);
    }
    printf("made %d, read %d\n", made, found);
    fflush(stdout);
    if (strcmp(what, "torn") == 0) {
        snprintf(path, sizeof path, "%s/part-0/file-%d", folder, FILES);
        fill(content, FILES);
        make(path, content, SIZE / 2);
        raise(SIGKILL);
    }
    if (strcmp(what, "hold") == 0) {
        pause();
    }
    return 0;
}
