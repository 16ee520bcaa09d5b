// The views and lessons of the page.

export const VIEWS = ["translate", "heads", "model", "neurons", "heat-map", "beam", "intervene"];
export const LESSONS = [
  "embeddings",
  "lookup",
  "scaled",
  "self-attention",
  "multi-head",
  "positions",
  "two-vectors",
  "masks",
  "smoothing",
  "beam",
  "cache",
  "cost",
];
