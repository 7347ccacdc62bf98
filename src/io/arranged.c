/* Tensors that a file stores in another arrangement than the program that they are named after:
 *
 *   rows of heads   llama.cpp turns neighbouring elements of a head, Hugging Face element i and
 *                   i + D / 2 of D. So row 2 i + a of a head in the file is row a D / 2 + i.
 *   transposed      the file has [columns, rows]
 *   less one        the file has a norm's factor, others the factor less 1
 *   strided         PyTorch stores a tensor that was transposed as it was before
 *
 * Elements are read row by row, so nothing but a row is held. Of a strided tensor all is held, from
 * its first element in the file to its last, until another one is read. */
#include "io/opened.h"

#include "core/error.h"
#include "core/quote.h"

#include <inttypes.h>
#include <stdlib.h>

bool ac_is_arranged(const ac_tensor_entry *entry) {
  return entry->arranged.head_rows || entry->arranged.transposed || entry->arranged.less_one ||
         entry->arranged.strided;
}

int64_t ac_arranged_row(const ac_tensor_entry *entry, int64_t row) {
  const int64_t size = entry->arranged.head_rows;
  if (!size) return row;
  const int64_t head = row / size, place = row % size, half = size / 2;
  return head * size + place % half * 2 + place / half;
}

static int64_t row_elements(const ac_model_tensor *tensor) {
  int64_t elements = 1;
  for (int d = 1; d < tensor->rank; d++) elements *= tensor->shape[d];
  return elements;
}

static ac_status read_rows(ac_model_file *file, const ac_tensor_entry *entry, int64_t first,
                           int64_t count, float *data) {
  const int64_t columns = row_elements(&entry->tensor);
  for (int64_t done = 0; done < count;) {
    const int64_t row = (first + done) / columns, column = (first + done) % columns;
    const int64_t piece = count - done < columns - column ? count - done : columns - column;
    AC_TRY(ac_read_plain(file, entry, ac_arranged_row(entry, row) * columns + column, piece,
                         data + done));
    done += piece;
  }
  return AC_OK;
}

/* Of each column of the tensor, which is a row of the file, the rows that the range touches. */
static ac_status read_transposed(ac_model_file *file, const ac_tensor_entry *entry, int64_t first,
                                 int64_t count, float *data) {
  const int64_t rows = entry->tensor.shape[0], columns = entry->tensor.shape[1];
  const int64_t begin = first / columns, end = (first + count + columns - 1) / columns;
  float *piece = malloc((size_t)(end - begin) * sizeof *piece);
  if (!piece) return ac_fail(AC_ERROR_MEMORY, "%s: no memory for a row", file->path);
  ac_status status = AC_OK;
  for (int64_t c = 0; c < columns && status == AC_OK; c++) {
    status = ac_read_plain(file, entry, c * rows + begin, end - begin, piece);
    for (int64_t r = begin; r < end && status == AC_OK; r++) {
      const int64_t place = r * columns + c - first;
      if (place >= 0 && place < count) data[place] = piece[r - begin];
    }
  }
  free(piece);
  return status;
}

/* `span` elements of the file. */
static ac_status read_spread(ac_model_file *file, const ac_tensor_entry *entry, int64_t span) {
  if (file->spread_of == entry) return AC_OK;
  free(file->spread);
  file->spread_of = NULL;
  file->spread = malloc((size_t)span * sizeof *file->spread);
  if (!file->spread)
    return ac_fail(AC_ERROR_MEMORY, "%s: no memory for a tensor that is stored by strides",
                   file->path);
  AC_TRY(ac_read_plain(file, entry, 0, span, file->spread));
  file->spread_of = entry;
  return AC_OK;
}

static ac_status read_strided(ac_model_file *file, const ac_tensor_entry *entry, int64_t first,
                              int64_t count, float *data) {
  const ac_model_tensor *t = &entry->tensor;
  int64_t span = 1;
  for (int d = 0; d < t->rank; d++) span += (t->shape[d] - 1) * entry->arranged.strides[d];
  AC_TRY(read_spread(file, entry, span));
  for (int64_t i = 0; i < count; i++) {
    int64_t left = first + i, place = 0;
    for (int d = t->rank - 1; d >= 0; d--) {
      place += left % t->shape[d] * entry->arranged.strides[d];
      left /= t->shape[d];
    }
    data[i] = file->spread[place];
  }
  return AC_OK;
}

/* Ranges are checked here, as what is read of a row would be within the tensor. */
ac_status ac_read_arranged(ac_model_file *file, const ac_tensor_entry *entry, int64_t first,
                           int64_t count, float *data) {
  const ac_model_tensor *t = &entry->tensor;
  const int64_t elements = row_elements(t) * (t->rank ? t->shape[0] : 1);
  if (first < 0 || count < 0 || first > elements || count > elements - first)
    return ac_fail(AC_ERROR_ARGUMENT,
                   "%s: tensor %s has %" PRId64 " elements; [%" PRId64 ", %" PRId64 " + %" PRId64
                   ") are not among them",
                   file->path, ac_quote(t->name).text, elements, first, first, count);
  if (!count) return AC_OK;
  if (entry->arranged.strided) return read_strided(file, entry, first, count, data);
  AC_TRY(entry->arranged.transposed ? read_transposed(file, entry, first, count, data)
                                    : read_rows(file, entry, first, count, data));
  for (int64_t i = 0; entry->arranged.less_one && i < count; i++) data[i] -= 1;
  return AC_OK;
}
