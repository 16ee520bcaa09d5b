// Examples as curl commands.

/** The curl command of a call with an example body. */
export function command(base, { method, path }, media, example) {
  const parts = [`curl ${quoted(base + path)}`];
  if (media === "application/json") {
    parts.push("-H 'Content-Type: application/json'", `-d ${quoted(JSON.stringify(example))}`);
  } else if (media === "application/x-www-form-urlencoded") {
    parts.push(...Object.entries(example).map(([name, value]) => `--data-urlencode ${quoted(`${name}=${value}`)}`));
  } else if (media === "multipart/form-data") {
    const value = (name, own) => (name === "file" && !own.startsWith("@") ? "@letter.txt" : own);
    parts.push(...Object.entries(example).map(([name, own]) => `-F ${quoted(`${name}=${value(name, own)}`)}`));
  } else if (media?.startsWith("image/")) {
    parts.push(`-H 'Content-Type: ${media}'`, `--data-binary ${quoted(example)}`);
  } else if (media === "query") {
    const fields = Object.entries(example).map(([name, value]) => `--data-urlencode ${quoted(`${name}=${value}`)}`);
    parts.push("--get", ...fields);
  } else if (method !== "get") {
    parts.push(`-X ${method.toUpperCase()}`);
  }
  return parts.join(" \\\n  ");
}

/** A text quoted for the shell. */
function quoted(text) {
  return `'${text.replaceAll("'", "'\\''")}'`;
}
