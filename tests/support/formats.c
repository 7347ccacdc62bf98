#include "formats.h"

#include <stdio.h>
#include <string.h>

const format_file format_files[FORMAT_FILES] = {
    {"text", "text", READ_AS_TEXT},
    {"json", "JSON", READ_AS_TEXT | READ_AS_JSON},
    {"utf16", "text in UTF-16", 0},
    {"png", "a PNG picture", 0},
    {"jpeg", "a JPEG picture", 0},
    {"webp", "a WebP picture", 0},
    {"npy16", "a NumPy array", 0},
    {"npy64", "a NumPy array", 0},
    {"safetensors", "a safetensors file", READ_AS_MODEL},
    {"gguf", "a GGUF model", 0},
    {"zip", "a zip archive", 0},
    {"idx3", "an IDX file", READ_AS_IDX_IMAGES},
    {"idx1", "an IDX file", READ_AS_IDX_LABELS},
    {"cifar10", "a file of CIFAR-10's records", READ_AS_CIFAR10},
    {"cifar100", "a file of CIFAR-100's records", READ_AS_CIFAR100},
    {"tokens", "a file of numbers, perhaps uint16 tokens", READ_AS_TOKENS},
    {"llmc16", "an llm.c file of uint16 tokens", READ_AS_TOKENS},
    {"llmc32", "an llm.c file of uint32 tokens", READ_AS_TOKENS},
    {"int32", "integers", 0},
    {"int64", "integers", 0},
    {"elf", "a program or library (ELF)", 0},
    {"pdf", "a PDF document", 0},
};

static void format_put(FILE *file, uint64_t value, int bytes) {
  for (int i = 0; i < bytes; i++) fputc((int)(value >> 8 * i & 255), file);
}

static void format_put_big(FILE *file, uint32_t value) {
  for (int i = 3; i >= 0; i--) fputc((int)(value >> 8 * i & 255), file);
}

/* Bytes as compressed data have them. */
static void format_put_noise(FILE *file, int bytes) {
  uint32_t state = 1;
  for (int i = 0; i < bytes; i++) {
    state = state * 1664525u + 1013904223u;
    fputc((int)(state >> 24), file);
  }
}

uint32_t format_token(int i) {
  const uint32_t mixed = (uint32_t)i * 2654435761u;
  return i % 3 ? (mixed >> 16) % 900 : (mixed >> 8) % 50257;
}

static void format_put_tokens(FILE *file, int bytes) {
  for (int i = 0; i < FORMAT_TOKENS; i++) format_put(file, format_token(i), bytes);
}

static void format_put_llmc(FILE *file, uint32_t magic, uint32_t version, int bytes) {
  format_put(file, magic, 4);
  format_put(file, version, 4);
  format_put(file, FORMAT_TOKENS, 4);
  for (int i = 3; i < 256; i++) format_put(file, 0, 4);
  format_put_tokens(file, bytes);
}

static void format_put_records(FILE *file, int labels) {
  for (int i = 0; i < 8; i++) {
    if (labels == 2) fputc(i, file);
    fputc(labels == 2 ? 12 * i : i, file);
    format_put_noise(file, 3072);
  }
}

static void format_put_idx(FILE *file, int rank) {
  format_put_big(file, 0x800u + (uint32_t)rank);
  format_put_big(file, 20);
  for (int i = 1; i < rank; i++) format_put_big(file, 8);
  if (rank == 1)
    for (int i = 0; i < 20; i++) fputc(i % 3, file);
  else format_put_noise(file, 20 * 64);
}

static void format_put_npy(FILE *file, const char *dtype, int bytes) {
  fwrite("\x93NUMPY\x01\0\x76\0", 1, 10, file);
  fprintf(file, "%-117s\n", dtype);
  format_put_tokens(file, bytes);
}

static void format_write(FILE *file, const char *name) {
  static const char model[] =
      "{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]}}        ";
#define FORMAT_IS(text) (!strcmp(name, text))
#define FORMAT_PUT(bytes) fwrite(bytes, 1, sizeof bytes - 1, file)
  if (FORMAT_IS("text"))
    for (int i = 0; i < 300; i++) fprintf(file, "Line %d of a text that is text.\n", i);
  if (FORMAT_IS("json")) {
    fputs("{\"lines\": [0", file);
    for (int i = 1; i < 1000; i++) fprintf(file, ", %d", i);
    fputs("]}\n", file);
  }
  if (FORMAT_IS("utf16")) {
    format_put(file, 0xfeff, 2);
    for (int i = 0; i < 400; i++) format_put(file, (unsigned)"text in sixteen bits\n"[i % 21], 2);
  }
  if (FORMAT_IS("png")) FORMAT_PUT("\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\0\0\x10\0\0\0\x10\x08\2\0\0\0");
  if (FORMAT_IS("jpeg")) FORMAT_PUT("\xff\xd8\xff\xe0\0\x10JFIF\0\1\1\0\0\1\0\1\0\0");
  if (FORMAT_IS("webp")) FORMAT_PUT("RIFF\xf8\x07\0\0WEBPVP8 \xec\x07\0\0");
  if (FORMAT_IS("npy16"))
    format_put_npy(file, "{'descr': '<u2', 'fortran_order': False, 'shape': (4096,), }", 2);
  if (FORMAT_IS("npy64"))
    format_put_npy(file, "{'descr': '<i8', 'fortran_order': False, 'shape': (4096,), }", 8);
  if (FORMAT_IS("safetensors")) {
    format_put(file, sizeof model - 1, 8);
    FORMAT_PUT(model);
    format_put(file, 0, 4);
  }
  if (FORMAT_IS("gguf")) FORMAT_PUT("GGUF\3\0\0\0\2\0\0\0\0\0\0\0\3\0\0\0\0\0\0\0");
  if (FORMAT_IS("zip")) FORMAT_PUT("PK\3\4\0\0\x08\x08\0\0\0\0\0\0\0\0\0\0model/data.pkl");
  if (FORMAT_IS("idx3")) format_put_idx(file, 3);
  if (FORMAT_IS("idx1")) format_put_idx(file, 1);
  if (FORMAT_IS("cifar10")) format_put_records(file, 1);
  if (FORMAT_IS("cifar100")) format_put_records(file, 2);
  if (FORMAT_IS("tokens")) format_put_tokens(file, 2);
  if (FORMAT_IS("llmc16")) format_put_llmc(file, 20240520, 1, 2);
  if (FORMAT_IS("llmc32")) format_put_llmc(file, 20240801, 7, 4);
  if (FORMAT_IS("int32")) format_put_tokens(file, 4);
  if (FORMAT_IS("int64")) format_put_tokens(file, 8);
  if (FORMAT_IS("elf"))
    FORMAT_PUT("\x7f"
               "ELF\2\1\1\0\0\0\0\0\0\0\0\0\3\0\x3e\0\1\0\0\0");
  if (FORMAT_IS("pdf"))
    FORMAT_PUT("%PDF-1.7\n%\xe2\xe3\xcf\xd3\n1 0 obj\n<</Length 2000>>stream\n");
  if (strstr("png jpeg webp gguf zip elf pdf", name)) format_put_noise(file, 2000);
#undef FORMAT_IS
#undef FORMAT_PUT
}

bool formats_write(const char *folder) {
  for (int i = 0; i < FORMAT_FILES; i++) {
    char path[4096];
    snprintf(path, sizeof path, "%s/%s", folder, format_files[i].name);
    FILE *file = fopen(path, "wb");
    if (!file) return false;
    format_write(file, format_files[i].name);
    if (fclose(file) != 0) return false;
  }
  return true;
}
