/** A component whose code is loaded on first use, or earlier by `preload`.
 *
 * React.lazy shows its fallback for at least 300 ms; this shows the component as soon as it is loaded. */

import { type ComponentType, type ReactNode, useEffect, useState } from "react";

type Loadable<P> = ComponentType<P> & { preload: () => Promise<void> };

export function loadable<P extends object>(load: () => Promise<ComponentType<P>>, fallback: ReactNode): Loadable<P> {
  let loaded: ComponentType<P> | null = null;
  const preload = async () => {
    loaded ??= await load();
  };
  function Wrapper(props: P) {
    const [Component, setComponent] = useState<ComponentType<P> | null>(() => loaded);
    const [failed, setFailed] = useState(false);
    useEffect(() => {
      if (Component !== null) return;
      let wanted = true;
      preload().then(() => wanted && setComponent(() => loaded), () => wanted && setFailed(true));
      return () => {
        wanted = false;
      };
    }, [Component]);
    if (failed) throw new Error("a part of this page could not be loaded"); // ErrorBoundary shows it
    return Component === null ? fallback : <Component {...props} />;
  }
  Wrapper.preload = preload;
  return Wrapper;
}
