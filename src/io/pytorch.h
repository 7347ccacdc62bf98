/* PyTorch's files of tensors, as torch.save writes them. */
#ifndef AC_IO_PYTORCH_H
#define AC_IO_PYTORCH_H

#include "io/opened.h"

/* Whether a file that begins with these bytes is one, in one of its two forms. */
bool ac_is_pytorch(const unsigned char *start, size_t count);
/* Finds the file's tensors. */
ac_status ac_pytorch_read_header(ac_model_file *file, int64_t file_bytes);

#endif
