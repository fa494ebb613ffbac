/** The text with its first letter in upper case. */
export function capitalise(text: string): string {
  return text.charAt(0).toUpperCase() + text.slice(1);
}

/** The text, cut to a length. */
export function truncate(text: string, length: number): string {
  if (text.length < length) {
    return text;
  }
  return text.slice(0, length - 1) + "…";
}
