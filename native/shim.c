/* The soft NPU as a shared library that any program can load in a vendor's library's place.
 *
 * Each exported function jumps through a table that Python fills on the first call. The shim joins
 * the interpreter of the process if one runs, else it starts one. It is built without Python's
 * headers: the few functions it needs are looked up by name. Beside the library lie two files that
 * `anynpu soft lib` writes: anynpu-soft.conf (which libpython, which environment) and
 * anynpu_soft_boot.py, which fills the table.
 *
 * ANYNPU_LIBRARY is the name by which the soft NPU knows the library (anynpu/soft/libraries.py), and
 * ANYNPU_EXPORTS names a generated file: the declarations, and where ANYNPU_EXPORT is a macro, a
 * line for each function:
 *     ANYNPU_EXPORT(result, name, (parameters), (arguments), result on failure)
 *     ANYNPU_EXPORT_VOID(name, (parameters), (arguments))
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <limits.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <wchar.h>

#include ANYNPU_EXPORTS

#define CONFIGURATION "anynpu-soft.conf"
#define BOOT_SCRIPT "anynpu_soft_boot.py"
#define PATH_SIZE PATH_MAX

enum {
#define ANYNPU_EXPORT(result, name, parameters, arguments, failure) INDEX_##name,
#define ANYNPU_EXPORT_VOID(name, parameters, arguments) INDEX_##name,
#include ANYNPU_EXPORTS
#undef ANYNPU_EXPORT
#undef ANYNPU_EXPORT_VOID
    FUNCTION_COUNT
};

/* Python sees this layout: see anynpu/soft/cabi/bootstrap.py. */
static struct {
    int32_t closing;   /* set by Python when its interpreter is about to end */
    int32_t in_flight; /* calls that are inside Python now */
    uint64_t count;
    struct {
        const char *name;
        void *address;
    } functions[FUNCTION_COUNT];
} table = {
    .count = FUNCTION_COUNT,
    .functions = {
#define ANYNPU_EXPORT(result, name, parameters, arguments, failure) {#name, NULL},
#define ANYNPU_EXPORT_VOID(name, parameters, arguments) {#name, NULL},
#include ANYNPU_EXPORTS
#undef ANYNPU_EXPORT
#undef ANYNPU_EXPORT_VOID
    },
};

/* Tells anynpu's own loader that this is no vendor's library. */
__attribute__((visibility("default"))) const char anynpu_soft_npu[] = "anynpu";

/* ------------------------------------------------------------------ the interpreter's functions */

struct python_api {
    int (*is_initialized)(void);
    void (*initialize)(int with_signal_handlers);
    void (*set_program_name)(const wchar_t *name);
    int (*gil_ensure)(void);
    void (*gil_release)(int state);
    int (*gil_check)(void);
    void *(*save_thread)(void);
    void (*restore_thread)(void *state);
    int (*run_string)(const char *text, void *flags);
};

static struct python_api python;

static int look_up_python(void *library, struct python_api *api) {
#define LOOK_UP(field, symbol) *(void **)&api->field = dlsym(library, symbol)
    LOOK_UP(is_initialized, "Py_IsInitialized");
    LOOK_UP(initialize, "Py_InitializeEx");
    LOOK_UP(set_program_name, "Py_SetProgramName"); /* leaves in Python 3.15 */
    LOOK_UP(gil_ensure, "PyGILState_Ensure");
    LOOK_UP(gil_release, "PyGILState_Release");
    LOOK_UP(gil_check, "PyGILState_Check");
    LOOK_UP(save_thread, "PyEval_SaveThread");
    LOOK_UP(restore_thread, "PyEval_RestoreThread");
    LOOK_UP(run_string, "PyRun_SimpleStringFlags");
#undef LOOK_UP
    return api->is_initialized && api->initialize && api->gil_ensure && api->gil_release &&
           api->gil_check && api->save_thread && api->restore_thread && api->run_string;
}

/* --------------------------------------------------------------------------- starting, once */

/* Where this library really lies: programs that want /usr/lib/librknnrt.so are given a link there. */
static int own_folder(char *folder) {
    Dl_info info;
    if (!dladdr(&table, &info) || !info.dli_fname || !realpath(info.dli_fname, folder)) {
        fprintf(stderr, "anynpu: the soft NPU cannot find the file that it was loaded from\n");
        return 0;
    }
    *strrchr(folder, '/') = '\0';
    return 1;
}

/* The value of `key=` in the configuration file, or an empty string. */
static void read_setting(const char *folder, const char *key, char *value) {
    char path[PATH_SIZE + sizeof CONFIGURATION + 1], line[PATH_SIZE + 32];
    value[0] = '\0';
    snprintf(path, sizeof path, "%s/%s", folder, CONFIGURATION);
    FILE *file = fopen(path, "re");
    if (!file)
        return;
    size_t length = strlen(key);
    while (fgets(line, sizeof line, file)) {
        line[strcspn(line, "\n")] = '\0';
        if (!strncmp(line, key, length) && line[length] == '=')
            snprintf(value, PATH_SIZE, "%.*s", PATH_SIZE - 1, line + length + 1);
    }
    fclose(file);
}

static int load_python(const char *folder) {
    if (look_up_python(RTLD_DEFAULT, &python))
        return 1;
    char name[PATH_SIZE];
    read_setting(folder, "libpython", name);
    if (!name[0]) {
        fprintf(stderr,
                "anynpu: no Python library is named in %s/" CONFIGURATION "; run `anynpu soft lib` "
                "with a Python that has a libpython (on Debian: apt install libpython3-dev)\n",
                folder);
        return 0;
    }
    /* Global: Python's extension modules look their symbols up there. */
    void *library = dlopen(name, RTLD_NOW | RTLD_GLOBAL);
    if (!library) {
        fprintf(stderr, "anynpu: cannot load %s: %s; run `anynpu soft lib` again\n", name, dlerror());
        return 0;
    }
    return look_up_python(library, &python);
}

/* Start an interpreter as the environment's own python would start, and let go of its lock. */
static void start_interpreter(const char *folder) {
    static wchar_t program[PATH_SIZE]; /* Python keeps the pointer */
    char name[PATH_SIZE];
    read_setting(folder, "python", name);
    if (python.set_program_name && name[0] && mbstowcs(program, name, PATH_SIZE - 1) != (size_t)-1)
        python.set_program_name(program);
    python.initialize(0);
    python.save_thread();
}

/* Run the boot script, which fills the table; a single expression, so that it leaves no names. */
static void run_boot_script(const char *folder) {
    static const char form[] =
        "exec(__import__('pathlib').Path(__import__('os').fsdecode(bytes.fromhex('%s'))).read_text(),"
        " {'__name__': 'anynpu_soft_boot', 'TABLE': %llu, 'LIBRARY': '" ANYNPU_LIBRARY "'})";
    char path[PATH_SIZE + sizeof BOOT_SCRIPT + 1], hex[2 * sizeof path + 1];
    char code[sizeof hex + sizeof form + 32];
    snprintf(path, sizeof path, "%s/%s", folder, BOOT_SCRIPT);
    for (size_t i = 0; i <= strlen(path); i++)
        snprintf(hex + 2 * i, 3, path[i] ? "%02x" : "", (unsigned char)path[i]);
    snprintf(code, sizeof code, form, hex, (unsigned long long)(uintptr_t)&table);
    int state = python.gil_ensure();
    python.run_string(code, NULL);
    python.gil_release(state);
}

static int is_filled(void) {
    for (int i = 0; i < FUNCTION_COUNT; i++)
        if (!table.functions[i].address)
            return 0;
    return 1;
}

static int start(void) {
    char folder[PATH_SIZE];
    if (!own_folder(folder) || !load_python(folder))
        return 0;
    if (!python.is_initialized())
        start_interpreter(folder);
    run_boot_script(folder);
    if (is_filled())
        return 1;
    fprintf(stderr, "anynpu: the soft NPU in %s did not start; its calls fail\n", folder);
    return 0;
}

/* Wait for the lock without holding Python's: whoever has ours may need that one to go on. */
static void lock_politely(pthread_mutex_t *mutex) {
    if (!pthread_mutex_trylock(mutex))
        return;
    struct python_api api;
    void *state = NULL;
    if (look_up_python(RTLD_DEFAULT, &api) && api.is_initialized() && api.gil_check())
        state = api.save_thread();
    pthread_mutex_lock(mutex);
    if (state)
        api.restore_thread(state);
}

static int enter(void) {
    static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
    static int state; /* 0 not tried, 1 works, -1 failed */
    int now = __atomic_load_n(&state, __ATOMIC_ACQUIRE);
    if (!now) {
        lock_politely(&mutex);
        now = __atomic_load_n(&state, __ATOMIC_ACQUIRE);
        if (!now) {
            now = start() ? 1 : -1;
            __atomic_store_n(&state, now, __ATOMIC_RELEASE);
        }
        pthread_mutex_unlock(&mutex);
    }
    if (now < 0)
        return 0;
    __atomic_add_fetch(&table.in_flight, 1, __ATOMIC_SEQ_CST);
    if (!__atomic_load_n(&table.closing, __ATOMIC_SEQ_CST))
        return 1;
    __atomic_sub_fetch(&table.in_flight, 1, __ATOMIC_SEQ_CST);
    return 0;
}

static void leave(void) { __atomic_sub_fetch(&table.in_flight, 1, __ATOMIC_SEQ_CST); }

/* ------------------------------------------------------------------------------ the functions */

#define ANYNPU_EXPORT(result, name, parameters, arguments, failure)                     \
    __attribute__((visibility("default"))) result name parameters {                     \
        if (!enter())                                                                   \
            return failure;                                                             \
        result anynpu_value = ((result(*) parameters)table.functions[INDEX_##name].address)arguments; \
        leave();                                                                        \
        return anynpu_value;                                                            \
    }
#define ANYNPU_EXPORT_VOID(name, parameters, arguments)                                 \
    __attribute__((visibility("default"))) void name parameters {                       \
        if (!enter())                                                                   \
            return;                                                                     \
        ((void(*) parameters)table.functions[INDEX_##name].address)arguments;           \
        leave();                                                                        \
    }
#include ANYNPU_EXPORTS
