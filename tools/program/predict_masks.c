#include "program/predict_masks.h"

#include "common/folder.h"
#include "common/json_text.h"
#include "common/message.h"
#include "common/text.h"
#include "program/finite.h"
#include "program/segments.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

typedef struct mask_writer {
  saved_model *saved;
  const char *data, *out;
  bool overwrite;
  int64_t classes, pixels;
  uint8_t *answer, *restored; /* of a sample, and of its picture */
  int64_t room;               /* of restored */
  int64_t count[256];         /* pixels of the picture, by their class */
  int64_t told;
} mask_writer;

static const ac_pictures *list_of(const saved_model *m) {
  return data_list_of(&m->setup.data, m->dataset);
}

const char *predict_file(const saved_model *m, int64_t sample) {
  return ac_pictures_path(list_of(m), sample);
}

/* ---- names ----------------------------------------------------------------------------------- */

/* OUT/PATH.png for a picture with PATH below the data. */
static int name_mask(const mask_writer *w, int64_t sample, char path[FOLDER_BYTES]) {
  const char *file = predict_file(w->saved, sample);
  size_t data = strlen(w->data);
  while (data > 1 && w->data[data - 1] == '/') data--;
  const bool below = !strncmp(file, w->data, data) && file[data] == '/';
  const char *slash = strrchr(file, '/');
  const char *name = below ? file + data + 1 : slash ? slash + 1 : file;
  const char *dot = strrchr(name, '.');
  const int stem = dot ? (int)(dot - name) : (int)strlen(name);
  if (snprintf(path, FOLDER_BYTES, "%s/%.*s.png", w->out, stem, name) < FOLDER_BYTES)
    return STATUS_CONTINUE;
  return fail("the path of a mask in %s is too long", w->out);
}

static int compare_names(const void *a, const void *b) {
  return strcmp(*(char *const *)a, *(char *const *)b);
}

/* What is there already is kept, above all the picture itself. */
static int check_place(const mask_writer *w, int64_t sample, const char *path) {
  const char *file = predict_file(w->saved, sample);
  struct stat picture, there;
  if (stat(path, &there) != 0) return STATUS_CONTINUE;
  if (stat(file, &picture) == 0 && picture.st_dev == there.st_dev && picture.st_ino == there.st_ino)
    return fail_usage("the mask of %s would be written over it; name another folder with --out",
                      file);
  if (w->overwrite) return STATUS_CONTINUE;
  return fail_usage("%s is there already; replace it with --overwrite, or name another folder with "
                    "--out",
                    path);
}

/* Two pictures with names that differ only in their endings would have one mask. */
static int check_names(const mask_writer *w) {
  const int64_t count = ac_dataset_count(w->saved->dataset);
  char path[FOLDER_BYTES], **names = calloc((size_t)count, sizeof *names);
  int status = names ? STATUS_CONTINUE : fail("out of memory");
  for (int64_t i = 0; i < count && status == STATUS_CONTINUE; i++) {
    status = name_mask(w, i, path);
    if (status == STATUS_CONTINUE) status = check_place(w, i, path);
    names[i] = status == STATUS_CONTINUE ? strdup(path) : NULL;
    if (status == STATUS_CONTINUE && !names[i]) status = fail("out of memory");
  }
  if (status == STATUS_CONTINUE) qsort(names, (size_t)count, sizeof *names, compare_names);
  for (int64_t i = 1; i < count && status == STATUS_CONTINUE; i++)
    if (!strcmp(names[i - 1], names[i]))
      status = fail("two pictures of %s would have the mask %s: their names differ only in their "
                    "endings",
                    w->data, names[i]);
  for (int64_t i = 0; names && i < count; i++) free(names[i]);
  free(names);
  return status;
}

/* A mask must not be written over its picture. */
static int check_places(const mask_writer *w) {
  struct stat data, out;
  const bool same = stat(w->data, &data) == 0 && stat(w->out, &out) == 0 &&
                    data.st_dev == out.st_dev && data.st_ino == out.st_ino;
  if (same) return fail_usage("--out %s is the folder of the pictures", w->out);
  return STATUS_CONTINUE;
}

/* ---- a mask ---------------------------------------------------------------------------------- */

static int write_mask(mask_writer *w, int64_t sample, const char *path) {
  char folder[FOLDER_BYTES];
  int64_t width, height;
  if (ac_pictures_size(list_of(w->saved), sample, &width, &height) != AC_OK) return fail_library();
  if (width * height > w->room) {
    free(w->restored);
    w->room = width * height;
    w->restored = malloc((size_t)w->room);
    if (!w->restored) return fail("out of memory");
  }
  if (ac_dataset_restore_mask(w->saved->dataset, sample, w->answer, w->restored) != AC_OK)
    return fail_library();
  memset(w->count, 0, sizeof w->count);
  for (int64_t p = 0; p < width * height; p++) w->count[w->restored[p]]++;
  snprintf(folder, sizeof folder, "%s", path);
  *strrchr(folder, '/') = '\0';
  const int status = folder_make(folder, "out");
  if (status != STATUS_CONTINUE) return status;
  return ac_mask_write_png(path, width, height, w->restored) == AC_OK ? STATUS_CONTINUE
                                                                      : fail_library();
}

/* Of the pixels that the model has seen. */
static double share_of_class(const mask_writer *w, int64_t class) {
  int64_t seen = 0;
  for (int64_t c = 0; c < w->classes; c++) seen += w->count[c];
  return seen ? (double)w->count[class] / (double)seen : 0;
}

static bool put_json(const mask_writer *w, int64_t sample, const char *path) {
  json_t *shares = json_array();
  for (int64_t c = 0; c < w->classes; c++)
    json_array_append_new(shares, json_real(share_of_class(w, c)));
  json_t *row = json_pack("{s:I, s:o, s:o, s:o}", "index", (json_int_t)sample, "file",
                          json_text_name(predict_file(w->saved, sample)), "mask",
                          json_text_name(path), "shares", shares);
  char *text = row ? json_text(row, JSON_COMPACT) : NULL;
  if (text) printf("%s    %s", w->told ? ",\n" : "", text);
  json_decref(row);
  free(text);
  return text;
}

static int tell(void *user, const classify_sample *sample, const float *logits) {
  mask_writer *w = user;
  char path[FOLDER_BYTES];
  if (!segments_answer(logits, w->classes, w->pixels, w->answer))
    return fail_not_finite(w->saved->path, "what it predicts is");
  int status = name_mask(w, sample->index, path);
  if (status == STATUS_CONTINUE) status = write_mask(w, sample->index, path);
  if (status != STATUS_CONTINUE) return status;
  progress_clear(&w->saved->progress);
  if (w->saved->json && !put_json(w, sample->index, path)) return fail("out of memory");
  if (!w->saved->json)
    message_put(stdout, "%8" PRId64 "   %s   %s\n", sample->index, path,
                predict_file(w->saved, sample->index));
  w->told++;
  return ferror(stdout) ? fail("cannot write the result: %s", strerror(errno)) : STATUS_CONTINUE;
}

/* ---- the whole ------------------------------------------------------------------------------- */

static int put_head(const mask_writer *w) {
  const saved_model *m = w->saved;
  if (!m->json) {
    printf("%8s   %s\n", "image", "mask");
    return STATUS_CONTINUE;
  }
  json_t *name = json_text_name(m->path);
  char *text = name ? json_text(name, JSON_ENCODE_ANY) : NULL;
  json_decref(name);
  if (!text) return fail("out of memory");
  printf("{\n  \"model\": \"%s\",\n  \"file\": %s,\n  \"classes\": %" PRId64
         ",\n  \"predictions\": [\n",
         m->setup.kind->name, text, w->classes);
  free(text);
  return STATUS_CONTINUE;
}

static int write_all(mask_writer *w) {
  int status = check_places(w);
  if (status == STATUS_CONTINUE) status = check_names(w);
  if (status == STATUS_CONTINUE) status = put_head(w);
  if (status == STATUS_CONTINUE)
    status = saved_model_classify(w->saved, w->classes * w->pixels, tell, w);
  if (status != STATUS_CONTINUE) return status;
  if (w->saved->json) printf("\n  ]\n}\n");
  return STATUS_DONE;
}

int predict_masks(saved_model *m, const char *data, const char *out, bool overwrite) {
  const setup *s = &m->setup;
  int64_t shape[3];
  mask_writer w = {.saved = m,
                   .data = data,
                   .out = out,
                   .overwrite = overwrite,
                   .classes = s->kind->classes(s->model)};
  if (!ac_dataset_image_shape(m->dataset, shape)) return fail("the data holds no images");
  w.pixels = shape[1] * shape[2];
  w.answer = malloc((size_t)w.pixels);
  const int status = w.answer ? write_all(&w) : fail("out of memory");
  free(w.answer);
  free(w.restored);
  return status;
}
