// Asks before a form with unsaved changes is left.

import { useEffect } from './vendor/htm-preact.js';
import { texts } from './texts.js';

let isUnsaved = false;

export const hasUnsaved = () => isUnsaved;

/** Everything is saved, or may be lost. */
export const forgetUnsaved = () => { isUnsaved = false; };

/** Whether the page may be left: nothing is unsaved, or the person agrees. */
export const mayLeave = () => !isUnsaved || confirm(texts.form.unsaved);

/** Says whether the form of a component has unsaved changes. */
export function useUnsaved(unsaved) {
  useEffect(() => {
    isUnsaved = unsaved;
    const closing = event => isUnsaved && event.preventDefault();
    addEventListener('beforeunload', closing);
    return () => {
      isUnsaved = false;
      removeEventListener('beforeunload', closing);
    };
  }, [unsaved]);
}
