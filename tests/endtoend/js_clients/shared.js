export const RECORDS = 1_000
export const REST = 10
export const PATIENCE_MS = 60_000

export const VALUE_BYTES = 20_000
export const SENDS = 30

export function numbered(count, from = 0) {
  return Array.from({ length: count }, (_, at) => ({ key: `${from + at}`, value: `${from + at}` }))
}

// Collects values until `wanted` have come; a client that brings fewer in time fails.
export class Collector {
  constructor(wanted) {
    this.values = []
    this.done = new Promise((resolve, reject) => {
      const late = setTimeout(() => reject(new Error(`read ${this.values.length} of ${wanted}`)), PATIENCE_MS)
      this.take = value => {
        this.values.push(value)
        if (this.values.length === wanted) {
          clearTimeout(late)
          resolve(this.values)
        }
      }
    })
  }
}
