// Requests to the program. A lost request is repeated: browsers cancel open requests when a network interface comes or
// goes, as those of pods do.

const TIMES = 4;
const PAUSE_MILLISECONDS = 300;

export function pause(milliseconds) {
  return new Promise((done) => setTimeout(done, milliseconds));
}

export async function ask(path, options = {}) {
  for (let left = TIMES; ; left -= 1) {
    try {
      return await fetch(path, options);
    } catch (error) {
      if (left === 0 || options.signal?.aborted) throw error;
      await pause(PAUSE_MILLISECONDS);
    }
  }
}

// The text of a response, or the reason of the failure.
export async function askText(path) {
  const answer = await ask(path);
  const text = await answer.text();
  if (!answer.ok) throw new Error(text.trim());
  return text;
}
