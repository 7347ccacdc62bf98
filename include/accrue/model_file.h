/** @file
 * Model files: weights by name, and metadata, which are pairs of strings. Files are written in the
 * safetensors format. They are read in this format, in GGUF, the format of llama.cpp, and in that
 * of PyTorch's torch.save. A new file is written next to its target, synced and renamed over it. So
 * the old file survives any failure. */
#ifndef ACCRUE_MODEL_FILE_H
#define ACCRUE_MODEL_FILE_H

#include <accrue/storage.h>

#ifdef __cplusplus
extern "C" {
#endif

/** A tensor in a file. */
typedef struct ac_model_tensor {
  const char *name; /**< Its name, in UTF-8. */
  ac_dtype dtype;   /**< How its elements are stored. */
  int rank;         /**< Number of dimensions, 0 to 8. 0: one element. */
  int64_t shape[8]; /**< Its dimensions, row-major. */
} ac_model_tensor;

/** One entry of a file's metadata. */
typedef struct ac_metadata {
  const char *key;   /**< Its key, in UTF-8. Each key is used once. */
  const char *value; /**< Its value, in UTF-8. */
} ac_metadata;

/* ---- writing --------------------------------------------------------------------------------- */

/** Copies elements [first, first + count) of tensor `index` to `data`. A writer asks for its data
 * in pieces, so no second copy of the model is needed. */
typedef ac_status (*ac_model_source)(void *user, int index, int64_t first, int64_t count,
                                     void *data);

/** Writes a file with the tensors in the given order. Names are unique UTF-8. A shape may be empty
 * (rank 0: one element) or have zeros.
 *
 * On any failure the file that was at `path` stays as it was, and no other file is left. This
 * includes a disk that fills, and a source that fails; the source's status is returned. A symbolic
 * link at `path` is followed. A folder, a pipe, a socket or a device is refused with AC_ERROR_IO.
 */
AC_API ac_status ac_model_file_write(const char *path, const ac_model_tensor *tensors,
                                     int tensor_count, const ac_metadata *metadata,
                                     int metadata_count, ac_model_source source, void *user);

/* ---- reading --------------------------------------------------------------------------------- */

/** A model file that is open for reading. */
typedef struct ac_model_file ac_model_file;

/** Opens a file, and reads and checks its whole header: lengths, dtypes, byte counts, offsets
 * without holes or overlaps, and names, which must be unique. The tensors are listed in the order
 * of their data.
 *
 * Fails with AC_ERROR_FORMAT and what is wrong. For a file of another format it says which one. A
 * pipe is refused. Tensors of other dtypes (such as int64) or of more than 8 dimensions are checked
 * as far as possible and left out. f64 is listed and read as f32.
 *
 * `path` may also be an index of several files (model.safetensors.index.json), or a folder that has
 * one or a model.safetensors. The files of an index are opened as one. They lie next to the index:
 * a name that leads elsewhere is refused, and so are a file or a tensor that is missing, and a
 * tensor that two files have.
 *
 * A GGUF file may be of version 2 or 3. Its tensors may be F32, F16, BF16, F64, I32, or in the
 * blocks Q4_0, Q4_1, Q5_0, Q5_1, Q8_0, Q4_K, Q5_K and Q6_K, which are listed as f32 and decoded
 * when they are read; another type is refused with AC_ERROR_UNSUPPORTED. Shapes have the innermost
 * dimension last, as everywhere here. Numbers of its metadata are texts of digits, and arrays are
 * left out.
 *
 * A file of PyTorch's torch.save holds a dict of tensors, or a dict that has one as "state_dict",
 * "model_state_dict", "model" or "net"; "module." and "_orig_mod." before all names are left out.
 * It may be a zip archive or have the form of before PyTorch 1.6. Its pickle is not run: only
 * tensors and plain values are known, and a pickle that names anything else, or has another opcode,
 * is refused by it with AC_ERROR_UNSUPPORTED. Several tensors may share their elements, and strides
 * may have any order. */
AC_API ac_status ac_model_file_open(ac_model_file **file, const char *path);
/** Closes a file. */
AC_API void ac_model_file_close(ac_model_file *file);

/** How many tensors are listed. */
AC_API int ac_model_file_tensor_count(const ac_model_file *file);
/** A tensor of the file. Valid while the file is open; NULL if there is none with this index. */
AC_API const ac_model_tensor *ac_model_file_tensor(const ac_model_file *file, int index);
/** The index of the tensor with this name. -1 if there is none. */
AC_API int ac_model_file_find(const ac_model_file *file, const char *name);
/** The value of a metadata key. Valid while the file is open; NULL if the file lacks the key. */
AC_API const char *ac_model_file_metadata(const ac_model_file *file, const char *key);

/** Reads elements [first, first + count) of a float tensor, converted to f32. */
AC_API ac_status ac_model_file_read(ac_model_file *file, int index, int64_t first, int64_t count,
                                    float *data);

/* ---- may still change ------------------------------------------------------------------------ */

#ifndef AC_STABLE_ONLY

/** The blocks in which a tensor's elements are in the file, if it is one of the formats that
 * parameters can have. AC_BLOCKS_NONE if not, also if it is in blocks of another format, and if
 * there is no tensor with this index. */
AC_API ac_blocks ac_model_file_blocks(const ac_model_file *file, int index);
/** Reads elements [first, first + count) of a tensor in such blocks as they are in the file. Both
 * numbers are multiples of ac_blocks_elements, and `data` receives ac_blocks_bytes(blocks, count)
 * bytes. */
AC_API ac_status ac_model_file_read_blocks(ac_model_file *file, int index, int64_t first,
                                           int64_t count, void *data);

#endif /* AC_STABLE_ONLY */

#ifdef __cplusplus
}
#endif
#endif
