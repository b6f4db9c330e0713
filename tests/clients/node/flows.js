// What the programs of flows share: the address, and the line that each flow prints.

const [host, port] = process.argv.slice(2);
if (port === undefined) {
  console.error("usage: node PROGRAM HOST PORT");
  process.exit(2);
}

export const address = `${host}:${port}`;

/** The client has no such call, or it does not work against any server. */
export class Cannot extends Error {}

/** Runs the flows in order, and prints for each: passed, failed or skipped. */
export async function runAll(flows) {
  for (const [name, flow] of Object.entries(flows)) {
    try {
      await flow();
      console.log(`passed ${name}`);
    } catch (error) {
      console.log(error instanceof Cannot ? `skipped ${name}: ${error.message}` : `failed ${name}: ${once(error.message)}`);
    }
  }
}

const once = (text) => text.replaceAll(/\s+/g, " ").slice(0, 300);
