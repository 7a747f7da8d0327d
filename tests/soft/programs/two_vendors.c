/* Two vendors' libraries in one program, called first by two threads at once.
 *
 * usage: two_vendors LIBRKNNRT MODEL LIBVIPLITE MODEL; prints what failed, ends with 0 where nothing did. */
#include <dlfcn.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>

enum { TIMES = 10 };

static char **names;

static void *find(void *library, const char *name) {
    void *found = library ? dlsym(library, name) : NULL;
    if (!found)
        fprintf(stderr, "no %s: %s\n", name, dlerror());
    return found;
}

static void *use_rockchip(void *library) {
    int (*init)(uint64_t *, void *, uint32_t, uint32_t, void *);
    int (*destroy)(uint64_t);
    *(void **)&init = find(library, "rknn_init");
    *(void **)&destroy = find(library, "rknn_destroy");
    for (int i = 0; i < TIMES; i++) {
        uint64_t context;
        int code = init(&context, names[2], 0, 0, NULL);
        if (code || (code = destroy(context))) {
            printf("Rockchip: %d\n", code);
            return library;
        }
    }
    return NULL;
}

static void *use_allwinner(void *library) {
    int (*init)(void);
    int (*end)(void);
    int (*create)(const void *, uint32_t, int, void **);
    int (*destroy)(void *);
    *(void **)&init = find(library, "vip_init");
    *(void **)&end = find(library, "vip_destroy");
    *(void **)&create = find(library, "vip_create_network");
    *(void **)&destroy = find(library, "vip_destroy_network");
    int code = init();
    for (int i = 0; i < TIMES && !code; i++) {
        void *network = NULL;
        code = create(names[4], 0, 1, &network);
        code = code ? code : destroy(network);
    }
    code = code ? code : end();
    if (code)
        printf("Allwinner: %d\n", code);
    return code ? library : NULL;
}

int main(int count, char **arguments) {
    pthread_t first, second;
    void *failed, *also;
    if (count != 5)
        return 2;
    names = arguments;
    void *rockchip = dlopen(names[1], RTLD_NOW), *allwinner = dlopen(names[3], RTLD_NOW);
    if (!rockchip || !allwinner) {
        fprintf(stderr, "%s\n", dlerror());
        return 2;
    }
    pthread_create(&first, NULL, use_rockchip, rockchip);
    pthread_create(&second, NULL, use_allwinner, allwinner);
    pthread_join(first, &failed);
    pthread_join(second, &also);
    /* What was unloaded could be called no more by the threads that the soft NPU has. */
    dlclose(rockchip);
    dlclose(allwinner);
    return failed || also;
}
