/* A launcher's store as a table in shared memory between forked processes. */
#ifndef STORE_H
#define STORE_H
#include "test.h"
#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/wait.h>

enum { KEYS = 64, CAPACITY = 4096 };

struct store {
    atomic_int keys;
    atomic_int arrived;
    struct {
        atomic_int ready;
        uint32_t rank;
        char key[64];
        size_t bytes;
        unsigned char value[CAPACITY];
    } entries[KEYS];
};

struct view {
    struct store *store;
    uint32_t rank;
    int ranks, fences;
};

static int put(void *self, const char *key, const void *value, size_t bytes)
{
    struct view *view = self;
    int at = atomic_fetch_add(&view->store->keys, 1);
    if (at >= KEYS || bytes > CAPACITY || strlen(key) >= sizeof view->store->entries[at].key)
        return 1;
    strcpy(view->store->entries[at].key, key);
    memcpy(view->store->entries[at].value, value, bytes);
    view->store->entries[at].bytes = bytes;
    view->store->entries[at].rank = view->rank;
    atomic_store(&view->store->entries[at].ready, 1);
    return 0;
}

static int get(void *self, uint32_t rank, const char *key, void *value, size_t capacity, size_t *bytes)
{
    struct view *view = self;
    for (int at = 0; at < KEYS; at++) {
        if (!atomic_load(&view->store->entries[at].ready)
            || view->store->entries[at].rank != rank
            || strcmp(view->store->entries[at].key, key) != 0)
            continue;
        *bytes = view->store->entries[at].bytes;
        memcpy(value, view->store->entries[at].value, *bytes < capacity ? *bytes : capacity);
        return 0;
    }
    return 1;
}

static int fence(void *self)
{
    struct view *view = self;
    view->fences++;
    atomic_fetch_add(&view->store->arrived, 1);
    while (atomic_load(&view->store->arrived) < view->fences * view->ranks)
        usleep(100);
    return 0;
}

static uint32_t node(void *self, uint32_t rank)
{
    (void)self;
    (void)rank;
    return 0;
}

static inline struct store *new_store(void)
{
    struct store *store = mmap(NULL, sizeof *store, PROT_READ | PROT_WRITE,
                               MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    ENSURE(store != MAP_FAILED);
    return store;
}
#endif
