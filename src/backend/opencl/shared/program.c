/* Compiling cl/ files, and the cache of compiled programs on disk.
 *
 * A program is a file NAME.cl in cl/ with what it includes. It is looked for in memory, then in the
 * cache folder, then compiled from source and written to the folder. A cache file's name is the
 * hash of all that the binary depends on: source, options, device, driver, platform and the format
 * of the file. A file is ignored and written anew if it is damaged, is of another key, is not
 * accepted by the driver any more, or lacks the kernel that is asked for. If the folder cannot be
 * written to, that only costs time.
 *
 * PoCL keeps compiled kernels on disk itself, and compiles every kernel a second time before it
 * hands out a binary, so there this cache is off. ACCRUE_PROGRAM_CACHE=1 or =0 switches it on or
 * off anywhere. */
#include "backend/opencl/shared/opencl.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "backend/opencl/shared/sources.h"
#include "core/platform/cache_file.h"
#include "core/error.h"
#include "core/hash.h"

enum { CACHE_VERSION = 1 };
static const uint64_t max_binary = (uint64_t)256 << 20;

typedef struct cache_header {
  char magic[8];
  uint64_t key, length, checksum;
} cache_header;
static const char cache_magic[8] = "ACCLBIN";

static const ac_cl_source *find_source(const char *file) {
  for (int i = 0; i < ac_cl_source_count; i++)
    if (!strcmp(ac_cl_sources[i].name, file)) return &ac_cl_sources[i];
  return NULL;
}

/* ---- the disk cache -------------------------------------------------------------------------- */

bool ac_cl_cache_wanted(const char *platform) {
  const char *choice = getenv("ACCRUE_PROGRAM_CACHE");
  if (choice && *choice) return strcmp(choice, "0") != 0;
  return strcmp(platform, "Portable Computing Language") != 0;
}

/* The binary, which is the file without its header: the caller frees. */
static unsigned char *read_binary(const ac_cache_file *cache, uint64_t key, size_t *length) {
  cache_header header;
  const size_t bytes = ac_cache_file_bytes(cache);
  if (bytes <= sizeof header || bytes - sizeof header > max_binary) return NULL;
  unsigned char *contents = malloc(bytes);
  if (!contents) return NULL;
  *length = bytes - sizeof header;
  const unsigned char *binary = contents + sizeof header;
  if (ac_cache_file_read(cache, contents, bytes)) {
    memcpy(&header, contents, sizeof header);
    if (!memcmp(header.magic, cache_magic, sizeof cache_magic) && header.key == key &&
        header.length == *length && header.checksum == ac_hash(key, binary, *length)) {
      memmove(contents, binary, *length);
      return contents;
    }
  }
  free(contents);
  return NULL;
}

static void write_binary(const ac_cache_file *cache, uint64_t key, const unsigned char *binary,
                         size_t length) {
  cache_header header = {.key = key, .length = length, .checksum = ac_hash(key, binary, length)};
  memcpy(header.magic, cache_magic, sizeof cache_magic);
  ac_cache_file_write(cache, &header, sizeof header, binary, length);
}

static void save_program(cl_program program, const ac_cache_file *cache, uint64_t key) {
  size_t length = 0;
  if (clGetProgramInfo(program, CL_PROGRAM_BINARY_SIZES, sizeof length, &length, NULL) !=
          CL_SUCCESS ||
      length == 0 || length > max_binary)
    return;
  unsigned char *binary = malloc(length);
  if (binary &&
      clGetProgramInfo(program, CL_PROGRAM_BINARIES, sizeof binary, &binary, NULL) == CL_SUCCESS)
    write_binary(cache, key, binary, length);
  free(binary);
}

static cl_program load_program(ac_opencl *cl, const ac_cache_file *cache, uint64_t key,
                               const char *options) {
  size_t length = 0;
  unsigned char *binary = read_binary(cache, key, &length);
  if (!binary) return NULL;
  cl_int error, accepted = CL_SUCCESS;
  const unsigned char *bytes = binary;
  cl_program program =
      clCreateProgramWithBinary(cl->context, 1, &cl->device, &length, &bytes, &accepted, &error);
  free(binary);
  if (error != CL_SUCCESS) return NULL;
  if (accepted == CL_SUCCESS &&
      clBuildProgram(program, 1, &cl->device, options, NULL, NULL) == CL_SUCCESS)
    return program;
  clReleaseProgram(program);
  return NULL;
}

/* ---- compiling ------------------------------------------------------------------------------- */

/* Which the caller frees; NULL: none. Drivers write nothing of a log that does not fit. */
static char *build_log(const ac_opencl *cl, cl_program program) {
  size_t length = 0;
  if (clGetProgramBuildInfo(program, cl->device, CL_PROGRAM_BUILD_LOG, 0, NULL, &length) !=
      CL_SUCCESS)
    return NULL;
  char *log = calloc(1, length + 1);
  if (log) clGetProgramBuildInfo(program, cl->device, CL_PROGRAM_BUILD_LOG, length, log, NULL);
  return log;
}

/* The compiler's first complaint: the first line of its log that says "error", else the first line.
 */
static ac_status build_failure(ac_opencl *cl, cl_program program, const char *file, cl_int error) {
  char none[1] = "", *log = build_log(cl, program), *text = log ? log : none;
  char *line = text + strspn(text, " \t\r\n"), *complaint = strstr(line, "error");
  if (complaint)
    for (line = complaint; line > text && line[-1] != '\n';) line--;
  line[strcspn(line, "\r\n")] = 0;
  const char *name = ac_cl_error_name(error);
  ac_cl_note_error(cl, error);
  const ac_status status =
      ac_fail(AC_ERROR_DEVICE, "opencl: %s: cl/%s.cl does not compile on %s: %s", cl->op, file,
              cl->info.name,
              *line  ? line
              : name ? name
                     : "no log");
  free(log);
  return status;
}

static ac_status compile(ac_opencl *cl, const ac_cl_source *source, const char *written,
                         const char *options, cl_program *program) {
  const char *text[AC_CL_MAX_PARTS + 1];
  size_t length[AC_CL_MAX_PARTS + 1];
  int parts = 0;
  for (; parts < source->part_count; parts++) {
    text[parts] = (const char *)source->parts[parts]->bytes;
    length[parts] = source->parts[parts]->length;
  }
  if (*written) {
    text[parts] = written;
    length[parts++] = strlen(written);
  }
  cl_int error;
  *program = clCreateProgramWithSource(cl->context, (cl_uint)parts, text, length, &error);
  if (error != CL_SUCCESS) return ac_cl_fail(cl, error, "clCreateProgramWithSource");
  error = clBuildProgram(*program, 1, &cl->device, options, NULL, NULL);
  if (error == CL_SUCCESS) return AC_OK;
  ac_status status = build_failure(cl, *program, source->name, error);
  clReleaseProgram(*program);
  return status;
}

void ac_cl_announce(const ac_opencl *cl, const char *doing, const char *what) {
  char line[128];
  if (!cl->log) return;
  snprintf(line, sizeof line, "%s: %s %s...", cl->info.id, doing, what);
  cl->log(cl->log_user, AC_LOG_INFO, line);
}

uint64_t ac_cl_program_key(const ac_opencl *cl, const char *file, const char *options) {
  const ac_cl_source *source = find_source(file);
  uint64_t key = ac_hash(cl->identity + CACHE_VERSION, options, strlen(options));
  for (int i = 0; source && i < source->part_count; i++)
    key = ac_hash(key, source->parts[i]->bytes, source->parts[i]->length);
  return key;
}

/* From source, if `anew`, whatever is on disk. */
static ac_status make_program(ac_opencl *cl, const char *file, const char *options,
                              const char *written, bool anew, ac_cl_program *made) {
  const ac_cl_source *source = find_source(file);
  if (!source) return ac_fail(AC_ERROR_DEVICE, "opencl: cl/%s.cl is not part of this build", file);
  char all[AC_CL_MAX_OPTIONS + 96], prefix[64];
  int length = snprintf(
      all, sizeof all, "-cl-std=CL1.2 -DGROUP=%d%s%s %s", cl->group, cl->cpu ? " -DCPU" : "",
      cl->rounds_division ? " -cl-fp32-correctly-rounded-divide-sqrt" : "", options);
  if (length < 0 || (size_t)length >= sizeof all)
    return ac_fail(AC_ERROR_ARGUMENT, "opencl: the options of cl/%s.cl are too long", file);
  const uint64_t key = ac_hash(ac_cl_program_key(cl, file, all), written, strlen(written));
  snprintf(prefix, sizeof prefix, "%s-", file);
  ac_cache_file cache = {""};
  if (cl->cache_programs) cache = ac_cache_file_of("programs", prefix, key, ".bin");
  made->program = anew ? NULL : load_program(cl, &cache, key, all);
  made->from_disk = made->program;
  if (made->program) return AC_OK;
  ac_cl_announce(cl, "compiling", file);
  AC_TRY(compile(cl, source, written, all, &made->program));
  if (cache.path[0]) save_program(made->program, &cache, key);
  return AC_OK;
}

static uint64_t name_key(const char *file, const char *options, const ac_cl_writer *writer) {
  return ac_hash(ac_hash(writer ? writer->key : 0, file, strlen(file) + 1), options,
                 strlen(options));
}

static ac_cl_program *find_program(ac_opencl *cl, uint64_t key) {
  for (int i = 0; i < cl->program_count; i++)
    if (cl->programs[i].key == key) return &cl->programs[i];
  return NULL;
}

static ac_status make_room(ac_opencl *cl) {
  if (cl->program_count < cl->program_capacity) return AC_OK;
  const int capacity = cl->program_capacity ? 2 * cl->program_capacity : 32;
  ac_cl_program *grown = realloc(cl->programs, (size_t)capacity * sizeof *grown);
  if (!grown) return ac_fail(AC_ERROR_MEMORY, "opencl: no memory for the list of programs");
  cl->programs = grown;
  cl->program_capacity = capacity;
  return AC_OK;
}

/* From source, if `anew`, as make_program does. */
static ac_status write_and_make(ac_opencl *cl, const char *file, const char *options,
                                const ac_cl_writer *writer, bool anew, ac_cl_program *made) {
  if (!writer || !writer->write)
    return make_program(cl, file, options, writer ? writer->of : "", anew, made);
  char *text = calloc(1, AC_CL_MAX_WRITTEN);
  if (!text) return ac_fail(AC_ERROR_MEMORY, "opencl: no memory for the source of a kernel");
  writer->write(writer->of, text, AC_CL_MAX_WRITTEN);
  const ac_status status = make_program(cl, file, options, text, anew, made);
  free(text);
  return status;
}

static ac_status get_program(ac_opencl *cl, const char *file, const char *options,
                             const ac_cl_writer *writer, ac_cl_program **program) {
  ac_cl_program made = {.key = name_key(file, options, writer)};
  if ((*program = find_program(cl, made.key))) return AC_OK;
  AC_TRY(make_room(cl));
  AC_TRY(write_and_make(cl, file, options, writer, false, &made));
  *program = &cl->programs[cl->program_count++];
  **program = made;
  return AC_OK;
}

ac_status ac_cl_kernel_create(ac_opencl *cl, const char *file, const char *options,
                              const ac_cl_writer *writer, const char *name, cl_kernel *kernel,
                              cl_int *error) {
  ac_cl_program *program, made;
  AC_TRY(get_program(cl, file, options, writer, &program));
  *kernel = clCreateKernel(program->program, name, error);
  if (*error == CL_SUCCESS || !program->from_disk) return AC_OK;
  AC_TRY(write_and_make(cl, file, options, writer, true, &made));
  clReleaseProgram(program->program);
  program->program = made.program;
  program->from_disk = false;
  *kernel = clCreateKernel(program->program, name, error);
  return AC_OK;
}

void ac_cl_programs_release(ac_opencl *cl) {
  for (int i = 0; i < cl->program_count; i++) clReleaseProgram(cl->programs[i].program);
  free(cl->programs);
  cl->programs = NULL;
  cl->program_count = cl->program_capacity = 0;
}
