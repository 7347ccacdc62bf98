/* Finds a bright box in an image, as FCOS does; arXiv 1904.01355. The image is cut into cells. Each
 * says whether it has the box's centre, a focal loss because most have none, and how far the box's
 * sides are from the cell's centre, a loss of the boxes' intersection over their union. */
#include "recipe.h"

enum {
  IMAGES = 16,
  SIZE = 12,
  CELLS = 3,
  GRID = CELLS * CELLS,
  CELL = SIZE / CELLS,
  UPDATES = 120
};

static float image[IMAGES][SIZE][SIZE], object[IMAGES][GRID];
static float side[IMAGES][4][GRID]; /* left, top, right, bottom, in cells */

static int drawn_below(int n) {
  return (int)((draw() + 1) / 2 * (float)n);
}

static void fill(void) {
  for (int i = 0; i < IMAGES; i++) {
    const int width = 3 + drawn_below(4), height = 3 + drawn_below(4);
    const int left = drawn_below(SIZE - width + 1), top = drawn_below(SIZE - height + 1);
    const int box[] = {2 * left, 2 * top, 2 * (left + width), 2 * (top + height)}; /* half pixels */
    for (int y = 0; y < SIZE; y++)
      for (int x = 0; x < SIZE; x++) {
        const int inside = x >= left && x < left + width && y >= top && y < top + height;
        image[i][y][x] = draw() / 4 + (float)inside;
      }
    for (int c = 0; c < GRID; c++) {
      const int column = c % CELLS, row = c / CELLS;
      const int x = (2 * column + 1) * CELL, y = (2 * row + 1) * CELL;
      object[i][c] =
          (2 * left + width) / (2 * CELL) == column && (2 * top + height) / (2 * CELL) == row;
      for (int k = 0; k < 4; k++) {
        const int distance = (k < 2 ? -1 : 1) * (box[k] - (k % 2 ? y : x));
        side[i][k][c] = object[i][c] > 0 ? (float)distance / (2 * CELL) : 1;
      }
    }
  }
}

/* [B, 4, cells] sides of boxes -> [B, cells] areas: widths are left + right, heights top + bottom.
 */
static ac_tensor *area(ac_tensor *sides) {
  ac_tensor *spans = ac_sum(ac_reshape(sides, AC_SHAPE(AC_BATCH, 2, 2, GRID)), AC_AXES(1), false);
  ac_tensor *product = ac_multiply(ac_slice(spans, 1, 0, 1), ac_slice(spans, 1, 1, 1));
  return ac_reshape(product, AC_SHAPE(AC_BATCH, GRID));
}

int main(void) {
  ac_graph *graph = NULL;
  if (ac_graph_create(&graph) != AC_OK) return 1;
  ac_tensor *in = ac_input(graph, "image", AC_F32, AC_SHAPE(AC_BATCH, 1, SIZE, SIZE)),
            *found = ac_input(graph, "object", AC_F32, AC_SHAPE(AC_BATCH, GRID)),
            *sides = ac_input(graph, "side", AC_F32, AC_SHAPE(AC_BATCH, 4, GRID));
  const ac_conv2d_layer_desc halve = {.convolution = {.stride = {2, 2}, .padding = {1, 1}}};
  ac_tensor *x = ac_silu(ac_conv2d_layer(graph, "first", in, 8, 3, &halve));
  x = ac_silu(ac_conv2d_layer(graph, "second", x, 16, 3, &halve));
  x = ac_conv2d_layer(graph, "head", x, 5, 1, NULL);
  ac_tensor *logit = ac_reshape(ac_slice(x, 1, 0, 1), AC_SHAPE(AC_BATCH, GRID)),
            *box = ac_softplus(ac_reshape(ac_slice(x, 1, 1, 4), AC_SHAPE(AC_BATCH, 4, GRID)));
  ac_tensor *areas[] = {area(ac_minimum(box, sides)), area(box), area(sides)};
  ac_tensor *apart = ac_formula(graph, "1 - a / (b + c - a)", areas, 3);
  ac_graph_add_loss(graph, "focal", ac_focal_loss(logit, found, NULL, 0.25f, 2), 10);
  ac_graph_add_loss(graph, "iou", ac_loss(apart, found), 1); /* of cells with an object */
  const ac_feed feeds[] = {{"image", image}, {"object", object}, {"side", side}};
  return train_recipe("detection", graph, IMAGES, UPDATES, 0.03, feeds, 3, fill, 0.602892596);
}
