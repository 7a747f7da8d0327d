/* The soft NPU as a shared library that any program can load in a vendor's library's place.
 *
 * Each exported function jumps through a table that Python fills on the first call. The library joins
 * the interpreter of the process if one runs, else it starts one, which knows nothing of the program's
 * environment and leaves the program's signals, locale and threads as they are. It is built without
 * Python's headers: the few functions it needs are looked up by name. Beside the library lie two files
 * that `anynpu soft lib` writes: anynpu-soft.conf (which libpython, which environment) and
 * anynpu_soft_boot.py, which fills the table.
 *
 * ANYNPU_LIBRARY is the name by which the soft NPU knows the library (anynpu/soft/libraries.py), and
 * ANYNPU_EXPORTS names a generated file: the declarations, and where ANYNPU_EXPORT is a macro, a
 * line for each function:
 *     ANYNPU_EXPORT(result, name, (parameters), (arguments), result on failure)
 *     ANYNPU_EXPORT_VOID(name, (parameters), (arguments))
 *
 * `anynpu soft run` also names the library to the loader as its auditor (rtld-audit(7)), so that a program
 * gets it by whatever path it asks for it.
 *
 * Which thread a call is made on, and what happens to calls when the process ends or is forked, is the
 * matter of native/door.c, whose functions the table holds.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <limits.h>
#include <link.h>
#include <locale.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <wchar.h>

#include ANYNPU_EXPORTS

#define CONFIGURATION "anynpu-soft.conf"
#define BOOT_SCRIPT "anynpu_soft_boot.py"
#define PATH_SIZE PATH_MAX
#define STACK_SIZE ((size_t)16 << 20)

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
    uint64_t count;
    struct {
        const char *name;
        void *address;
    } functions[FUNCTION_COUNT];
} table = {
    .count = FUNCTION_COUNT,
    .functions =
        {
#define ANYNPU_EXPORT(result, name, parameters, arguments, failure) {#name, NULL},
#define ANYNPU_EXPORT_VOID(name, parameters, arguments) {#name, NULL},
#include ANYNPU_EXPORTS
#undef ANYNPU_EXPORT
#undef ANYNPU_EXPORT_VOID
        },
};
_Static_assert(sizeof table.functions[0] == 2 * sizeof(void *), "as Python declares it");

/* Tells anynpu's own loader that this is no vendor's library. */
__attribute__((visibility("default"))) const char anynpu_soft_npu[] = "anynpu";

/* What the soft NPU's libraries of a process share: the one that was loaded first lends it to all. */
struct start {
    pthread_mutex_t lock; /* held while an interpreter is looked for, started and filled */
    pid_t started;        /* the process that started its own interpreter, 0 for none */
};
__attribute__((visibility("default"))) struct start anynpu_soft_start_1 = {
    PTHREAD_MUTEX_INITIALIZER, 0};
#define START_SYMBOL "anynpu_soft_start_1"

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
    /* From Python 3.14 on, in the place of the flags. */
    void *(*new_config)(void);
    int (*set_int)(void *config, const char *name, int64_t value);
    int (*set_string)(void *config, const char *name, const char *value);
    int (*initialize_as)(void *config);
    int (*config_error)(void *config, const char **message);
};

static struct python_api python;
static void *python_library;

static int look_up_python(void *library, struct python_api *api) {
#define LOOK_UP(field, symbol) *(void **)&api->field = dlsym(library, symbol)
    LOOK_UP(is_initialized, "Py_IsInitialized");
    LOOK_UP(initialize, "Py_InitializeEx");
    LOOK_UP(set_program_name, "Py_SetProgramName");
    LOOK_UP(gil_ensure, "PyGILState_Ensure");
    LOOK_UP(gil_release, "PyGILState_Release");
    LOOK_UP(gil_check, "PyGILState_Check");
    LOOK_UP(save_thread, "PyEval_SaveThread");
    LOOK_UP(restore_thread, "PyEval_RestoreThread");
    LOOK_UP(run_string, "PyRun_SimpleStringFlags");
    LOOK_UP(new_config, "PyInitConfig_Create");
    LOOK_UP(set_int, "PyInitConfig_SetInt");
    LOOK_UP(set_string, "PyInitConfig_SetStr");
    LOOK_UP(initialize_as, "Py_InitializeFromInitConfig");
    LOOK_UP(config_error, "PyInitConfig_GetError");
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

/* ------------------------------------------------------------------- as the loader's auditor */

__attribute__((visibility("default"))) unsigned int la_version(unsigned int version) {
    return version;
}

/* A library that lies in this folder is taken from here, whatever path or search path it has
 * otherwise. The loader holds its lock, so that one answer at a time is kept. */
__attribute__((visibility("default"))) char *la_objsearch(const char *name, uintptr_t *cookie,
                                                          unsigned int flag) {
    static char folder[PATH_MAX], path[2 * PATH_MAX];
    const char *slash = strrchr(name, '/');
    (void)cookie;
    if (flag != LA_SER_ORIG || (!folder[0] && !own_folder(folder)))
        return (char *)name;
    snprintf(path, sizeof path, "%s/%s", folder, slash ? slash + 1 : name);
    return access(path, R_OK) ? (char *)name : path;
}

/* ------------------------------------------------------------------------ the interpreter */

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
    python_library = RTLD_DEFAULT;
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
    python_library = dlopen(name, RTLD_NOW | RTLD_GLOBAL);
    if (!python_library) {
        fprintf(stderr, "anynpu: cannot load %s: %s; run `anynpu soft lib` again\n", name,
                dlerror());
        return 0;
    }
    return look_up_python(python_library, &python);
}

/* Nothing of the program's environment, of the user's site and of site's customisations. */
static void isolate(void) {
    static const char *const flags[] = {"Py_IsolatedFlag", "Py_IgnoreEnvironmentFlag",
                                        "Py_NoUserSiteDirectory", "Py_NoSiteFlag", "Py_UTF8Mode"};
    for (size_t i = 0; i < sizeof flags / sizeof *flags; i++) {
        int *flag = dlsym(python_library, flags[i]);
        if (flag)
            *flag = 1;
    }
}

static void initialize_by_flags(const char *program) {
    static wchar_t wide[PATH_SIZE]; /* Python keeps the pointer */
    isolate();
    if (python.set_program_name && *program && mbstowcs(wide, program, PATH_SIZE - 1) != (size_t)-1)
        python.set_program_name(wide);
    python.initialize(0);
}

static int initialize_by_config(const char *program) {
    void *config = python.new_config(); /* isolated, without handlers of signals */
    const char *message = NULL;
    if (config && !python.set_int(config, "site_import", 0) &&
        !python.set_int(config, "utf8_mode", 1) &&
        (!*program || !python.set_string(config, "executable", program)) &&
        !python.initialize_as(config))
        return 1;
    if (config && python.config_error)
        python.config_error(config, &message);
    fprintf(stderr, "anynpu: Python doesn't start: %s\n", message ? message : "no memory");
    return 0;
}

/* Start an interpreter as the environment's own python would start, and let go of its lock. */
static void start_interpreter(const char *folder) {
    char program[PATH_SIZE];
    read_setting(folder, "python", program);
    const char *current = setlocale(LC_ALL, NULL);
    char *locale = current ? strdup(current) : NULL;
    if (python.new_config && python.set_int && python.set_string && python.initialize_as)
        initialize_by_config(program);
    else
        initialize_by_flags(program);
    if (locale)
        setlocale(LC_ALL, locale);
    free(locale);
    if (python.is_initialized())
        python.save_thread();
}

/* Python's main thread, which stays and makes no calls: the handlers of signals are for it alone. */
static pthread_mutex_t beginning = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t begun = PTHREAD_COND_INITIALIZER;
static int has_begun;

static void *be_main_thread(void *folder) {
    start_interpreter(folder);
    pthread_mutex_lock(&beginning);
    has_begun = 1;
    pthread_cond_signal(&begun);
    while (has_begun)
        pthread_cond_wait(&begun, &beginning);
    pthread_mutex_unlock(&beginning);
    return NULL;
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

static void *boot(void *folder) {
    run_boot_script(folder);
    return NULL;
}

/* A thread with room for Python and without signals, which are the program's. */
static int new_thread(pthread_t *thread, void *(*function)(void *), void *argument) {
    pthread_attr_t attributes;
    sigset_t all, before;
    if (pthread_attr_init(&attributes))
        return 0;
    pthread_attr_setstacksize(&attributes, STACK_SIZE);
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    const int code = pthread_create(thread, &attributes, function, argument);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    pthread_attr_destroy(&attributes);
    return !code;
}

/* An interpreter of our own. */
static int begin_python(char *folder) {
    pthread_t thread;
    if (!new_thread(&thread, be_main_thread, folder))
        return 0;
    pthread_detach(thread);
    pthread_mutex_lock(&beginning);
    while (!has_begun)
        pthread_cond_wait(&begun, &beginning);
    pthread_mutex_unlock(&beginning);
    return python.is_initialized();
}

/* Not on Python's main thread, so that nothing that is imported sets handlers of signals. */
static void boot_elsewhere(char *folder) {
    struct sigaction before[SIGRTMAX + 1], after;
    pthread_t thread;
    for (int number = 1; number <= SIGRTMAX; number++)
        if (sigaction(number, NULL, &before[number]))
            before[number].sa_handler = SIG_ERR;
    if (new_thread(&thread, boot, folder))
        pthread_join(thread, NULL);
    for (int number = 1; number <= SIGRTMAX; number++)
        if (before[number].sa_handler != SIG_ERR && !sigaction(number, NULL, &after) &&
            after.sa_handler != before[number].sa_handler)
            sigaction(number, &before[number], NULL);
}

static int start(struct start *shared) {
    char folder[PATH_SIZE];
    if (shared->started && shared->started != getpid()) {
        fprintf(stderr,
                "anynpu: the soft NPU can't start in a process that was forked from its own\n");
        return 0;
    }
    if (!own_folder(folder) || !load_python(folder))
        return 0;
    if (!python.is_initialized() && begin_python(folder))
        shared->started = getpid();
    if (shared->started)
        boot_elsewhere(folder);
    else if (python.is_initialized())
        run_boot_script(folder);
    if (is_filled())
        return 1;
    fprintf(stderr, "anynpu: the soft NPU in %s did not start; its calls fail\n", folder);
    return 0;
}

/* ----------------------------------------------------------------- one start for all libraries */

struct object {
    char *name;
    uintptr_t base;
    struct object *next;
};

/* Notes what is loaded, in the order in which it was. */
static int note(struct dl_phdr_info *info, size_t size, void *end) {
    struct object ***last = end, *object = NULL;
    (void)size;
    if (info->dlpi_name && *info->dlpi_name && (object = calloc(1, sizeof *object))) {
        object->name = strdup(info->dlpi_name);
        object->base = info->dlpi_addr;
        **last = object;
        *last = &object->next;
    }
    return 0;
}

static struct start *start_of(const struct object *object) {
    void *handle = object->name ? dlopen(object->name, RTLD_LAZY | RTLD_NOLOAD) : NULL;
    Dl_info info;
    if (!handle)
        return NULL;
    struct start *found = dlsym(handle, START_SYMBOL);
    dlclose(handle);
    /* The symbol of a library that it depends on is found too. */
    if (found && dladdr(found, &info) && (uintptr_t)info.dli_fbase == object->base)
        return found;
    return NULL;
}

/* That of the library that was loaded first; none is ever unloaded. */
static struct start *shared_start(void) {
    struct object *first = NULL, **last = &first;
    struct start *found = NULL;
    dl_iterate_phdr(note, &last);
    for (struct object *object = first, *next; object; object = next) {
        next = object->next;
        found = found ? found : start_of(object);
        free(object->name);
        free(object);
    }
    return found ? found : &anynpu_soft_start_1;
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

static int state; /* 0 not tried, 1 works, -1 failed */
static int is_starting;

static int enter(void) {
    int now = __atomic_load_n(&state, __ATOMIC_ACQUIRE);
    if (!now) {
        struct start *shared = shared_start();
        lock_politely(&shared->lock);
        now = __atomic_load_n(&state, __ATOMIC_ACQUIRE);
        if (!now) {
            __atomic_store_n(&is_starting, 1, __ATOMIC_RELEASE);
            now = start(shared) ? 1 : -1;
            __atomic_store_n(&state, now, __ATOMIC_RELEASE);
            __atomic_store_n(&is_starting, 0, __ATOMIC_RELEASE);
        }
        pthread_mutex_unlock(&shared->lock);
    }
    return now > 0;
}

/* What was half done when the process was forked is never finished in the new one. */
static void forked(void) {
    pthread_mutex_init(&anynpu_soft_start_1.lock, NULL);
    if (__atomic_load_n(&is_starting, __ATOMIC_ACQUIRE))
        __atomic_store_n(&state, -1, __ATOMIC_RELEASE);
}

__attribute__((constructor)) static void watch_forks(void) {
    pthread_atfork(NULL, NULL, forked);
}

/* ------------------------------------------------------------------------------ the functions */

#define ANYNPU_EXPORT(result, name, parameters, arguments, failure)                                \
    __attribute__((visibility("default"))) result name parameters {                                \
        if (!enter())                                                                              \
            return failure;                                                                        \
        return ((result(*) parameters)table.functions[INDEX_##name].address)arguments;             \
    }
#define ANYNPU_EXPORT_VOID(name, parameters, arguments)                                            \
    __attribute__((visibility("default"))) void name parameters {                                  \
        if (!enter())                                                                              \
            return;                                                                                \
        ((void(*) parameters)table.functions[INDEX_##name].address) arguments;                     \
    }
#include ANYNPU_EXPORTS
